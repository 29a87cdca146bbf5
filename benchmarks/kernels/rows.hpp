#pragma once
// The rows of the kernels' benchmark, and how they are timed: in turns, so that a neighbour on the machine slows all
// down alike; a ratio is the median of the ratios of the turns.

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "kernels/kernels.hpp"

namespace gleaner::bench {

struct Beside {  // a floor or a peer of the same run
  std::string name;
  double value = 0.0;
  std::string unit;
};

enum class Limit { at_least, at_most };

struct KernelRow {
  std::string name;  // stable, for machines
  std::string text;
  double value = 0.0;
  Limit limit = Limit::at_least;
  double target = 0.0;
  std::vector<Beside> beside;
  std::string open;  // why this machine cannot tell; then the row is neither met nor short

  bool met() const { return limit == Limit::at_least ? value >= target : value <= target; }
};
using KernelRows = std::vector<KernelRow>;

// Milliseconds of every turn of every subject; the first turn, which warms up, is left out. `before` is not timed.
struct Subject {
  std::function<void()> run;
  std::function<void()> before;
};
std::vector<std::vector<double>> take_turns(const std::vector<Subject>& subjects, int turns);
double median_ratio(const std::vector<double>& above, const std::vector<double>& below);
double median(std::vector<double> values);

std::vector<float> gaussian(std::size_t size);      // seeded: the same in every run
std::vector<float> heavy_tailed(std::size_t size);  // products of three Gaussians

void read_once(const std::vector<float>& x);       // a sum: the floor of everything that reads x
void read_once(const float* x, std::size_t size);  // the same for a part

// Each kind appends its rows.
void measure_select(KernelRows& rows);
void measure_fused(KernelRows& rows);
void measure_weak_spots(KernelRows& rows);
void measure_threads(KernelRows& rows);
void measure_targets(KernelRows& rows);
void measure_scatter(KernelRows& rows);
void measure_scatter_coded(KernelRows& rows);
void measure_codec(KernelRows& rows);

}  // namespace gleaner::bench
