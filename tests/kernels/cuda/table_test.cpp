// The table on host memory when the GPU is full or disappears: another table does the work, on inputs as they were.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "kernels/backends.hpp"
#include "kernels/cuda/emulation/driver.hpp"
#include "kernels/cuda/host_table.hpp"
#include "tests/kernels/inputs.hpp"

namespace gleaner::cuda {
namespace {

using ::testing::HasSubstr;

struct Failing {
  static SharedEngine& shared() { return *current; }
  static const KernelTable& after_failure(const Error& error) {
    messages.push_back(error.message());
    return reference_kernels();
  }
  static inline SharedEngine* current = nullptr;
  static inline std::vector<std::string> messages;
};
constexpr KernelTable kTable = HostTable<Failing>::table("cuda_failing");

// An engine behind the table as long as this lives; making it costs calls of the device, too.
class Behind {
 public:
  Behind(const emulation::EmulatedDevice& device, std::size_t budget_bytes) : driver_(device) {
    shared_.engine = Engine::create(driver_, {.budget_bytes = budget_bytes, .staging_bytes = 256}).value();
    Failing::current = &shared_;
    Failing::messages.clear();
  }
  ~Behind() { Failing::current = nullptr; }
  Behind(const Behind&) = delete;
  Behind& operator=(const Behind&) = delete;

 private:
  emulation::EmulatedDriver driver_;
  SharedEngine shared_;
};
constexpr std::uint64_t kCallsToMake = 8;  // two streams, two events, two halves with an event each

// What one function of a table leaves: its outputs, and what it changes in place.
struct State {
  std::vector<float> a = testing::normal_vector(150, 1);
  std::vector<float> b = testing::normal_vector(150, 2);
  std::vector<float> c = testing::normal_vector(150, 3);
  std::vector<std::int64_t> sum = std::vector<std::int64_t>(150, 7);
  std::vector<std::uint32_t> indices = {1, 70, 149};
  std::vector<float> sent = {0.5F, -2.0F, 8.0F};
  Selection selection;
  SegmentSelection segments;
  std::uint64_t hash = 5;

  bool operator==(const State& other) const {
    return a == other.a && b == other.b && c == other.c && sum == other.sum && indices == other.indices &&
           sent == other.sent && hash == other.hash && selection.indices == other.selection.indices &&
           selection.values == other.selection.values && selection.threshold == other.selection.threshold &&
           selection.squared_norm == other.selection.squared_norm && segments.indices == other.segments.indices &&
           segments.values == other.segments.values && segments.begins == other.segments.begins &&
           segments.thresholds == other.segments.thresholds && segments.squared_norms == other.segments.squared_norms;
  }
};

struct NamedCall {
  const char* name;
  std::function<void(const KernelTable&, State&)> call;
};

const std::vector<NamedCall>& calls() {
  static const std::vector<std::size_t> offsets = {0, 40, 40, 150};
  static const std::vector<std::uint32_t> ks = {3, 2, 50};
  static const std::vector<NamedCall> all = {
      {"select", [](const KernelTable& table, State& s) { table.select(s.a, 9, s.selection); }},
      {"select_segments",
       [](const KernelTable& table, State& s) { table.select_segments(s.a, offsets, ks, s.segments); }},
      {"accumulate_and_select",
       [](const KernelTable& table, State& s) { table.accumulate_and_select(s.a, s.b, 9, s.selection); }},
      {"subtract_and_select",
       [](const KernelTable& table, State& s) { table.subtract_and_select(s.a, s.b, s.c, 9, s.selection); }},
      {"take_out", [](const KernelTable& table, State& s) { table.take_out(s.a, s.indices, s.sent); }},
      {"put_back", [](const KernelTable& table, State& s) { table.put_back(s.a, s.indices, s.sent); }},
      {"gather", [](const KernelTable& table, State& s) { table.gather(s.a, s.indices, s.sent); }},
      {"scatter_add", [](const KernelTable& table, State& s) { table.scatter_add(s.sum, s.indices, s.sent, 3, 10); }},
      {"dense_add", [](const KernelTable& table, State& s) { table.dense_add(s.sum, s.a, 3, 10); }},
      {"scatter_add_many",
       [](const KernelTable& table, State& s) {
         const std::vector<WeightedUpdate> updates(3, {.indices = s.indices, .values = s.sent, .weight = 9});
         table.scatter_add_many(s.sum, 1, updates, 10);
       }},
      {"select_integers", [](const KernelTable& table, State& s) { table.select_integers(s.sum, 9, s.indices); }},
      {"apply_patch",
       [](const KernelTable& table, State& s) { s.hash = table.apply_patch(s.a, s.indices, s.sent, s.hash); }},
      {"model_hash", [](const KernelTable& table, State& s) { s.hash = table.model_hash(s.a); }},
      {"range_hash", [](const KernelTable& table, State& s) { s.hash = table.range_hash(s.a, 40); }}};
  return all;
}

TEST(HostTable, AVectorThatDoesNotFitIsLeftToTheOtherTable) {
  const Behind behind({}, 50'000);
  const auto x = testing::normal_vector(20'000, 4);
  Selection expected;
  Selection actual;
  reference_kernels().select(x, 50, expected);
  kTable.select(x, 50, actual);
  EXPECT_EQ(actual.indices, expected.indices);
  EXPECT_EQ(actual.values, expected.values);
  ASSERT_EQ(Failing::messages.size(), 1U);
  EXPECT_THAT(Failing::messages[0], HasSubstr("80000"));
  EXPECT_THAT(Failing::messages[0], HasSubstr("50000"));

  // What fits is still done on the GPU.
  kTable.select(std::span(x).first(100), 5, actual);
  EXPECT_EQ(Failing::messages.size(), 1U);
}

TEST(HostTable, ADeviceThatDisappearsAtAnyStepChangesNoResult) {
  constexpr std::uint64_t kStride = testing::kOneIn == 1 ? 1 : 3 * testing::kOneIn;
  std::uint64_t first = 0;
  for (const auto& [name, call] : calls()) {
    SCOPED_TRACE(name);
    State expected;
    call(reference_kernels(), expected);
    bool finished = false;
    for (std::uint64_t steps = first++ % kStride; !finished; steps += kStride) {
      ASSERT_LT(steps, 200U);
      const Behind behind({.calls_until_lost = kCallsToMake + steps}, 1U << 22U);
      State actual;
      call(kTable, actual);
      ASSERT_TRUE(actual == expected) << "lost after " << steps << " steps";
      finished = Failing::messages.empty();
      if (!finished) {
        EXPECT_THAT(Failing::messages[0], HasSubstr("the device is lost"));
      } else {
        EXPECT_GT(steps, 4U);
      }
    }
  }
}

TEST(HostTable, LengthsThatDifferAreTheCallersBug) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  std::vector<float> residual(3);
  const std::vector<float> update(4);
  Selection out;
  EXPECT_DEATH(kTable.accumulate_and_select(update, residual, 1, out), "broken invariant");
}

}  // namespace
}  // namespace gleaner::cuda
