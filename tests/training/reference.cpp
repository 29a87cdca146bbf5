#include "reference.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>

namespace gleaner::testing {
namespace {

using Values = std::vector<double>;

struct Image {
  std::size_t height;
  std::size_t width;
  std::size_t channels;
  Values values;
  double at(std::size_t y, std::size_t x, std::size_t c) const { return values[(y * width + x) * channels + c]; }
};

class Parameters {
 public:
  explicit Parameters(std::span<const double> values) : values_(values) {}
  std::span<const double> take(std::size_t count) {
    const auto taken = values_.first(count);
    values_ = values_.subspan(count);
    return taken;
  }
  bool empty() const { return values_.empty(); }

 private:
  std::span<const double> values_;
};

Values dense(const Values& input, std::size_t outputs, Parameters& parameters) {
  const auto weights = parameters.take(outputs * input.size());
  const auto bias = parameters.take(outputs);
  Values result;
  for (std::size_t o = 0; o < outputs; ++o) {
    double sum = bias[o];
    for (std::size_t i = 0; i < input.size(); ++i) sum += weights[i * outputs + o] * input[i];
    result.push_back(sum);
  }
  return result;
}

Values relu(Values values) {
  for (double& value : values) value = std::max(value, 0.0);
  return values;
}

struct Windows {
  std::size_t side;
  std::size_t padding;
};

Image padded(const Image& input, std::size_t padding) {
  Image result = {input.height + 2 * padding, input.width + 2 * padding, input.channels, {}};
  for (std::size_t y = 0; y < result.height; ++y) {
    for (std::size_t x = 0; x < result.width; ++x) {
      const bool inside = y >= padding && x >= padding && y < padding + input.height && x < padding + input.width;
      for (std::size_t c = 0; c < input.channels; ++c) {
        result.values.push_back(inside ? input.at(y - padding, x - padding, c) : 0.0);
      }
    }
  }
  return result;
}

Image convolve(const Image& inner, std::size_t outputs, const Windows& windows, Parameters& parameters) {
  const Image input = padded(inner, windows.padding);
  const std::size_t side = windows.side;
  const auto weights = parameters.take(outputs * side * side * input.channels);
  const auto bias = parameters.take(outputs);
  Image result = {input.height - side + 1, input.width - side + 1, outputs, {}};
  for (std::size_t y = 0; y < result.height; ++y) {
    for (std::size_t x = 0; x < result.width; ++x) {
      for (std::size_t o = 0; o < outputs; ++o) {
        double sum = bias[o];
        std::size_t at = o;
        for (std::size_t u = 0; u < side; ++u) {
          for (std::size_t v = 0; v < side; ++v) {
            for (std::size_t c = 0; c < input.channels; ++c, at += outputs) {
              sum += weights[at] * input.at(y + u, x + v, c);
            }
          }
        }
        result.values.push_back(sum);
      }
    }
  }
  return result;
}

Image pool(const Image& input) {
  Image result = {input.height / 2, input.width / 2, input.channels, {}};
  for (std::size_t y = 0; y < result.height; ++y) {
    for (std::size_t x = 0; x < result.width; ++x) {
      for (std::size_t c = 0; c < input.channels; ++c) {
        result.values.push_back(std::max({input.at(2 * y, 2 * x, c), input.at(2 * y, 2 * x + 1, c),
                                          input.at(2 * y + 1, 2 * x, c), input.at(2 * y + 1, 2 * x + 1, c)}));
      }
    }
  }
  return result;
}

Values scores(const ModelSpec& spec, const Values& input, Parameters& parameters) {
  if (spec.name == "softmax") return dense(input, spec.classes, parameters);
  if (spec.name == "mlp") return dense(relu(dense(input, spec.hidden, parameters)), spec.classes, parameters);
  struct Shape {
    Windows windows;
    std::size_t first;
    bool pool_between;
  };
  const std::map<std::string, Shape> shapes = {
      {"lenet", {{5, 0}, 16, true}}, {"cnn", {{3, 0}, 32, false}}, {"leaf-cnn", {{5, 2}, 32, true}}};
  const Shape& shape = shapes.at(spec.name);
  Image image = {spec.height, spec.width, spec.channels, input};
  for (const std::size_t outputs : {shape.first, 2 * shape.first}) {
    image = convolve(image, outputs, shape.windows, parameters);
    image.values = relu(std::move(image.values));
    if (shape.pool_between || outputs != shape.first) image = pool(image);
  }
  return dense(relu(dense(image.values, spec.hidden, parameters)), spec.classes, parameters);
}

}  // namespace

double reference_loss(const ModelSpec& spec, std::span<const double> parameters, std::span<const float> inputs,
                      std::span<const std::uint8_t> labels) {
  double sum = 0.0;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const auto sample = inputs.subspan(i * spec.inputs, spec.inputs);
    Parameters rest(parameters);
    const Values all = scores(spec, Values(sample.begin(), sample.end()), rest);
    if (!rest.empty()) throw std::logic_error("parameters left over");
    double exponentials = 0.0;
    for (const double score : all) exponentials += std::exp(score);
    sum += std::log(exponentials) - all[labels[i]];
  }
  return sum / static_cast<double>(labels.size());
}

}  // namespace gleaner::testing
