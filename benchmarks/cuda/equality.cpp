#include <fmt/format.h>

#include <bit>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "benchmarks/cuda/parts.hpp"
#include "common/hash.hpp"
#include "common/random.hpp"
#include "kernels/cuda/engine.hpp"
#include "kernels/cuda/host_table.hpp"
#include "kernels/kernels.hpp"

namespace gleaner::gpu_bench {
namespace {

template <class T>
bool same_bits(std::span<const T> a, std::span<const T> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

Status expect(bool equal, std::string_view what, std::size_t size, std::uint32_t k) {
  if (equal) return {};
  return fail(ErrorCode::fatal, fmt::format("{} of {} entries with k = {} differs from the CPU", what, size, k));
}

// The table as the backend has it, but for its way out: here a failure of the GPU must not be covered by the CPU.
struct OnGpu {
  static cuda::SharedEngine& shared() { return *current; }
  static inline cuda::SharedEngine* current = nullptr;
  [[noreturn]] static const KernelTable& after_failure(const Error& error) {
    fmt::print(stderr, "gpu_bench: {}\n", error.message());
    std::_Exit(1);
  }
};

bool same(const Selection& a, const Selection& b) {
  return a.non_finite_index == b.non_finite_index && a.indices == b.indices && same_bits<float>(a.values, b.values) &&
         std::bit_cast<std::uint32_t>(a.threshold) == std::bit_cast<std::uint32_t>(b.threshold) &&
         std::bit_cast<std::uint64_t>(a.squared_norm) == std::bit_cast<std::uint64_t>(b.squared_norm);
}

struct Tables {
  const KernelTable& cpu;
  const KernelTable& cuda;
};

Status check_selections(const Tables& tables, std::vector<float> x, std::uint32_t k, std::string_view name) {
  Selection expected;
  Selection actual;
  tables.cpu.select(x, k, expected);
  tables.cuda.select(x, k, actual);
  GLEANER_TRY(expect(same(expected, actual), fmt::format("select ({})", name), x.size(), k));

  std::vector<float> residual = random_vector(x.size(), 77);
  std::vector<float> other = residual;
  tables.cpu.accumulate_and_select(x, residual, k, expected);
  tables.cuda.accumulate_and_select(x, other, k, actual);
  GLEANER_TRY(expect(same(expected, actual) && same_bits<float>(residual, other),
                     fmt::format("accumulate_and_select ({})", name), x.size(), k));
  tables.cpu.take_out(residual, expected.indices, expected.values);
  tables.cuda.take_out(other, actual.indices, actual.values);
  GLEANER_TRY(expect(same_bits<float>(residual, other), "take_out", x.size(), k));
  tables.cpu.put_back(residual, expected.indices, expected.values);
  tables.cuda.put_back(other, actual.indices, actual.values);
  GLEANER_TRY(expect(same_bits<float>(residual, other), "put_back", x.size(), k));

  std::vector<float> candidate(x.size());
  std::vector<float> other_candidate(x.size());
  tables.cpu.subtract_and_select(x, residual, candidate, k, expected);
  tables.cuda.subtract_and_select(x, residual, other_candidate, k, actual);
  GLEANER_TRY(expect(same(expected, actual) && same_bits<float>(candidate, other_candidate),
                     fmt::format("subtract_and_select ({})", name), x.size(), k));

  const std::uint64_t hash = tables.cpu.model_hash(residual);
  GLEANER_TRY(expect(hash == tables.cuda.model_hash(other), "model_hash", x.size(), k));
  const auto after = tables.cpu.apply_patch(residual, expected.indices, expected.values, hash);
  const auto other_after = tables.cuda.apply_patch(other, actual.indices, actual.values, hash);
  return expect(after == other_after && same_bits<float>(residual, other), "apply_patch", x.size(), k);
}

Status check_sums(const Tables& tables, std::span<const float> x, std::uint32_t k) {
  Selection selection;
  tables.cpu.select(x, k, selection);
  std::vector<std::int64_t> sum(x.size(), -5);
  std::vector<std::int64_t> other = sum;
  for (const std::uint32_t weight : {1U, 60'000U, 0xffffffffU}) {
    tables.cpu.scatter_add(sum, selection.indices, selection.values, weight, 22);
    tables.cuda.scatter_add(other, selection.indices, selection.values, weight, 22);
    tables.cpu.dense_add(sum, x, weight, 20);
    tables.cuda.dense_add(other, x, weight, 20);
  }
  GLEANER_TRY(expect(sum == other, "sums", x.size(), k));
  std::vector<std::uint32_t> expected;
  std::vector<std::uint32_t> actual;
  tables.cpu.select_integers(sum, k, expected);
  tables.cuda.select_integers(sum, k, actual);
  return expect(expected == actual, "select_integers", x.size(), k);
}

Status check_rows(cuda::Driver& driver, const Tables& tables, std::span<const float> x, Random& random) {
  GLEANER_ASSIGN(const auto engine, cuda::Engine::create(driver, {.budget_bytes = driver.free_bytes() / 2}));
  std::vector<std::uint32_t> sizes;
  std::vector<std::uint32_t> k;
  std::size_t used = 0;
  while (used < x.size()) {
    const auto left = static_cast<std::uint32_t>(x.size() - used);
    sizes.push_back(std::min(left, random.below(20'000)));
    k.push_back(random.below(sizes.back() / 2 + 2));
    used += sizes.back();
  }
  GLEANER_ASSIGN(const auto rows, engine->rows(sizes, k));
  GLEANER_ASSIGN(const auto device_x, engine->uploaded(x));
  cuda::DeviceSelection selection;
  GLEANER_TRY(engine->select(rows, device_x, selection));
  std::vector<cuda::RowReport> reports(rows.count());
  std::vector<std::uint32_t> indices(rows.outputs());
  std::vector<float> values(rows.outputs());
  GLEANER_TRY(engine->download(selection.reports, std::span(reports)));
  GLEANER_TRY(engine->download(selection.indices, std::span(indices)));
  GLEANER_TRY(engine->download(selection.values, std::span(values)));
  std::size_t begin = 0;
  for (std::uint32_t row = 0; row < rows.count(); begin += sizes[row], ++row) {
    Selection expected;
    tables.cpu.select(x.subspan(begin, sizes[row]), k[row], expected);
    const cuda::RowReport& report = reports[row];
    const auto first = static_cast<std::ptrdiff_t>(rows.first_output(row));
    Selection actual = {.threshold = std::bit_cast<float>(report.threshold_bits), .squared_norm = report.squared_norm};
    actual.indices.assign(indices.begin() + first, indices.begin() + first + report.selected);
    actual.values.assign(values.begin() + first, values.begin() + first + report.selected);
    GLEANER_TRY(expect(same(expected, actual), fmt::format("row {} of a batch", row), sizes[row], k[row]));
  }
  return {};
}

}  // namespace

std::vector<float> random_vector(std::size_t size, std::uint64_t seed) {
  std::vector<float> x(size);
  std::uint64_t state = mix64(seed);
  for (float& value : x) {
    const std::uint64_t bits = mix64(++state);
    const auto sum = static_cast<std::int32_t>((bits & 0xffffU) + (bits >> 16U & 0xffffU)) -
                     static_cast<std::int32_t>((bits >> 32U & 0xffffU) + (bits >> 48U));
    value = static_cast<float>(sum) * (1.0F / 37'837.0F);
  }
  return x;
}

Status check_equality(cuda::Driver& driver, std::uint64_t seed, std::uint32_t size) {
  GLEANER_ASSIGN(const KernelTable* cpu, kernels_for(Backend::cpu));
  cuda::SharedEngine shared;
  OnGpu::current = &shared;
  GLEANER_ASSIGN(shared.engine, cuda::Engine::create(driver, {.budget_bytes = driver.free_bytes() / 2}));
  static constexpr KernelTable kOnGpu = cuda::HostTable<OnGpu>::table("cuda");
  const Tables tables = {*cpu, kOnGpu};
  Random random(seed, Purpose::test);
  for (const std::uint32_t n : {std::uint32_t{1}, std::uint32_t{4'097}, size / 7, size}) {
    const auto normal = random_vector(n, seed + n);
    std::vector<float> heavy = normal;
    std::vector<float> levels = normal;
    std::vector<float> sparse(n, 0.0F);
    for (std::uint32_t i = 0; i < n; ++i) {
      heavy[i] = normal[i] * normal[i] * normal[i] * normal[i] * normal[i];
      levels[i] = static_cast<float>(static_cast<int>(normal[i] * 3.0F));
      if (i % 1'000 == 7) sparse[i] = normal[i];
    }
    const std::pair<const char*, const std::vector<float>*> inputs[] = {
        {"normal", &normal}, {"heavy tails", &heavy}, {"few levels", &levels}, {"sparse", &sparse}};
    for (const auto& [name, x] : inputs) {
      for (const std::uint32_t k : {1U, n / 100, random.below(n) + 1, n}) {
        GLEANER_TRY(check_selections(tables, *x, k, name));
      }
    }
    GLEANER_TRY(check_sums(tables, normal, n / 50 + 1));
    GLEANER_TRY(check_rows(driver, tables, levels, random));
    GLEANER_TRY(check_rows(driver, tables, normal, random));
    auto bad = normal;
    bad[n / 2] = std::numeric_limits<float>::quiet_NaN();
    Selection selection;
    tables.cuda.select(bad, 3, selection);
    GLEANER_TRY(expect(selection.non_finite_index == n / 2, "the index of a NaN", n, 3));
  }
  return {};
}

}  // namespace gleaner::gpu_bench
