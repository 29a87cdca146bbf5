#include <array>
#include <mutex>
#include <string>

#include "common/log.hpp"
#include "common/text.hpp"
#include "kernels/backends.hpp"
#include "kernels/kernels.hpp"

namespace gleaner {
namespace {

struct Row {
  std::string_view name;
  Backend backend;
};
constexpr std::array kRows = {Row{"auto", Backend::automatic}, Row{"reference", Backend::reference},
                              Row{"cpu", Backend::cpu}, Row{"cuda", Backend::cuda}};

const KernelTable& choose() {
  static std::once_flag said;
  const auto cuda = cuda_kernels();
  const KernelTable& chosen = cuda ? **cuda : cpu_kernels();
  std::call_once(said, [&] {
    if (cuda) {
      log_info("kernels: auto chose cuda");
    } else {
      log_info("kernels: auto chose {} ({})", chosen.name, cuda.error().message());
    }
  });
  return chosen;
}

}  // namespace

Result<Backend> parse_backend(std::string_view name) {
  std::vector<std::string> names;
  for (const Row& row : kRows) {
    if (row.name == name) return row.backend;
    names.emplace_back(row.name);
  }
  return fail(ErrorCode::bad_input,
              "unknown kernel backend '" + std::string(name) + "': it is one of " + join_names(names));
}

Result<const KernelTable*> kernels_for(Backend backend) {
  switch (backend) {
    case Backend::automatic: return &choose();
    case Backend::reference: return &reference_kernels();
    case Backend::cpu: return &cpu_kernels();
    case Backend::cuda: return cuda_kernels();
  }
  return fail(ErrorCode::bad_input, "unknown kernel backend");
}

const KernelTable& on_host(const KernelTable& table) { return table.name == "cuda" ? cpu_kernels() : table; }

}  // namespace gleaner
