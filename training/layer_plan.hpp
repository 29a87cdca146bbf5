#pragma once
// A layer as a description: what a model's row lists, what tensors_of() reads shapes from and what a network is built
// from. Images are [height][width][channel].

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "training/model.hpp"

namespace gleaner {

enum class LayerKind { dense, convolution, max_pool };
enum class Activation { none, relu };

struct ImageShape {
  std::uint32_t height = 0;
  std::uint32_t width = 0;
  std::uint32_t channels = 0;
  std::size_t size() const { return std::size_t{height} * width * channels; }
};

struct LayerPlan {
  LayerKind kind = LayerKind::dense;
  std::string name;  // of its tensors: NAME.weight, NAME.bias
  ImageShape from;   // a dense layer reads 1 x 1 x inputs
  ImageShape to;
  std::uint32_t kernel = 0;   // side of a convolution's window
  std::uint32_t padding = 0;  // zeros on every side of a convolution's image
  Activation activation = Activation::none;
};

LayerPlan dense_plan(std::string name, std::size_t inputs, std::uint32_t outputs, Activation activation);
// Every whole window of the image with its zeros around it, stride 1, then ReLU. Fewer zeros than the kernel's side.
LayerPlan convolution_plan(std::string name, ImageShape from, std::uint32_t outputs, std::uint32_t kernel,
                           std::uint32_t padding = 0);
// Largest of 2 x 2, stride 2; an odd last row or column is left out.
LayerPlan max_pool_plan(ImageShape from);

// Weights are [input][output] and [row][column][input channel][output channel]: the order in which a small batch is
// multiplied fastest.
std::vector<TensorShape> tensors_of(const LayerPlan& plan);

}  // namespace gleaner
