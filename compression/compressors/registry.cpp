#include <array>

#include "common/text.hpp"
#include "compression/compressors/compressors.hpp"

namespace gleaner {
namespace {

struct Row {
  std::string_view name;
  std::unique_ptr<Compressor> (*make)(const CompressorOptions&, const Grouping&, const KernelTable&);
};
constexpr std::array kRows = {Row{"dense", make_dense}, Row{"topk", make_topk}};

}  // namespace

Result<std::unique_ptr<Compressor>> make_compressor(std::string_view name, const CompressorOptions& options,
                                                    const Grouping& tensors, const KernelTable& kernels) {
  for (const Row& row : kRows) {
    if (row.name == name) return row.make(options, tensors, kernels);
  }
  return fail(ErrorCode::bad_input,
              "unknown compressor '" + std::string(name) + "': it is one of " + join_names(compressor_names()));
}

std::vector<std::string> compressor_names() {
  std::vector<std::string> names;
  for (const Row& row : kRows) names.emplace_back(row.name);
  return names;
}

}  // namespace gleaner
