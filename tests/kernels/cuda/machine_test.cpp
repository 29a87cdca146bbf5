// The emulation itself: right kernels run, wrong ones are found, with the kernel, the block and the thread.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "kernels/cuda/emulation/driver.hpp"
#include "kernels/cuda/execution.hpp"

namespace gleaner::cuda::emulated {
namespace {

using emulation::Grid;
using ::testing::HasSubstr;

constexpr unsigned kBlock = 64;

Status run(std::uint64_t seed, const Grid& grid, const std::function<void()>& body) {
  Machine machine(seed);
  return machine.run("under_test", grid, body);
}

GLEANER_KERNEL reverse(unsigned* out) {
  GLEANER_SHARED(unsigned, values, kBlock);
  values[thread_index()] = thread_index() + 1;
  sync_block();
  out[block_index() * kBlock + thread_index()] = values[kBlock - 1 - thread_index()];
}

GLEANER_KERNEL reverse_without_barrier(unsigned* out) {
  GLEANER_SHARED(unsigned, values, kBlock);
  values[thread_index()] = thread_index() + 1;
  out[block_index() * kBlock + thread_index()] = values[kBlock - 1 - thread_index()];
}

unsigned wrong_entries(std::uint64_t seed, void (*kernel)(unsigned*)) {
  std::vector<unsigned> out(2 * kBlock);
  EXPECT_TRUE(run(seed, {.blocks = 2, .threads = kBlock}, [&] { kernel(out.data()); }));
  unsigned wrong = 0;
  for (unsigned i = 0; i < out.size(); ++i) wrong += out[i] == kBlock - i % kBlock ? 0 : 1;
  return wrong;
}

TEST(Machine, ABarrierLiesBetweenWritesAndReads) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) EXPECT_EQ(wrong_entries(seed, reverse), 0U) << seed;
}

TEST(Machine, AMissingBarrierShowsInEveryOrder) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) EXPECT_GT(wrong_entries(seed, reverse_without_barrier), 0U) << seed;
}

// What a block leaves in shared memory is gone when the next one begins.
TEST(Machine, SharedMemoryIsNoiseAtTheBeginningOfEveryBlock) {
  unsigned seen = 0;
  ASSERT_TRUE(run(1, {.blocks = 5, .threads = 1, .dynamic_shared_bytes = sizeof(unsigned)}, [&] {
    GLEANER_SHARED(unsigned, fixed, 1);
    GLEANER_DYNAMIC_SHARED(unsigned, dynamic);
    if (fixed[0] == 7 || fixed[0] == 0 || dynamic[0] == 7 || dynamic[0] == 0) ++seen;
    fixed[0] = dynamic[0] = 7;
  }));
  EXPECT_EQ(seen, 0U);
}

TEST(Machine, BlocksAndThreadsRunInAnOrderOfTheSeed) {
  std::set<std::vector<unsigned>> orders;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    std::vector<unsigned> order;
    std::vector<unsigned> again;
    for (auto* out : {&order, &again}) {
      ASSERT_TRUE(
          run(seed, {.blocks = 4, .threads = 40}, [&] { out->push_back(block_index() * 40 + thread_index()); }));
    }
    EXPECT_EQ(order, again);
    orders.insert(order);
    std::ranges::sort(order);
    for (unsigned i = 0; i < order.size(); ++i) EXPECT_EQ(order[i], i);
  }
  EXPECT_EQ(orders.size(), 8U);
}

// Atomic additions are whole; a load and a store with an atomic between them are not.
TEST(Machine, AtomicsAreInterruptedBetweenNotWithin) {
  unsigned lost = 0;
  for (std::uint64_t seed = 1; seed < 10; ++seed) {
    std::uint64_t counted = 0;
    std::uint64_t torn = 0;
    unsigned other = 0;
    ASSERT_TRUE(run(seed, {.blocks = 2, .threads = 96}, [&] {
      atomic_add(&counted, std::uint64_t{3});
      const std::uint64_t before = torn;
      atomic_max(&other, thread_index());
      torn = before + 1;
    }));
    EXPECT_EQ(counted, 2U * 96U * 3U);
    EXPECT_EQ(other, 95U);
    lost += torn < 2U * 96U ? 1 : 0;
  }
  EXPECT_GT(lost, 0U);
}

TEST(Machine, AtomicsReturnWhatWasThere) {
  unsigned x = 5;
  ASSERT_TRUE(run(0, {}, [&] {
    EXPECT_EQ(atomic_min(&x, 3U), 5U);
    EXPECT_EQ(atomic_exchange(&x, 8U), 3U);
    EXPECT_EQ(atomic_compare_exchange(&x, 9U, 1U), 8U);
    EXPECT_EQ(atomic_compare_exchange(&x, 8U, 2U), 8U);
  }));
  EXPECT_EQ(x, 2U);
}

TEST(Machine, WarpOperationsMeanWhatCudaMeans) {
  std::vector<std::vector<unsigned>> out(64);
  ASSERT_TRUE(run(3, {.blocks = 1, .threads = 64}, [&] {
    const unsigned t = thread_index();
    const unsigned lane = t % 32;
    auto& mine = out[t];
    mine.push_back(ballot(kWholeWarp, lane % 3 == 0));
    mine.push_back(shuffle(kWholeWarp, t, 5));
    mine.push_back(shuffle_up(kWholeWarp, t, 4));
    mine.push_back(shuffle_down(kWholeWarp, t, 4));
    mine.push_back(shuffle_xor(kWholeWarp, t, 3));
    mine.push_back(warp_sum(kWholeWarp, lane));
    mine.push_back(warp_min(kWholeWarp, t));
    mine.push_back(warp_max(kWholeWarp, t));
    mine.push_back(match(kWholeWarp, lane / 8));
    mine.push_back(all(kWholeWarp, lane < 32) && any(kWholeWarp, lane == 31) && !all(kWholeWarp, lane > 0) ? 1 : 0);
    if (lane < 8) mine.push_back(ballot(0xffU, lane == 2));
    sync_warp();
  }));
  for (unsigned t = 0; t < 64; ++t) {
    const unsigned lane = t % 32;
    const unsigned first = t - lane;
    std::vector<unsigned> expected = {0x49249249U, first + 5, lane < 4 ? t : t - 4, lane < 28 ? t + 4 : t,   t ^ 3U,
                                      496,         first,     first + 31,           0xffU << (lane / 8 * 8), 1};
    if (lane < 8) expected.push_back(4);
    EXPECT_EQ(out[t], expected) << t;
  }
}

struct Mistake {
  const char* name;
  std::function<void()> kernel;
  const char* found;
};

class Mistakes : public ::testing::TestWithParam<Mistake> {};

// The machine is usable afterwards, and the error names all that is needed to find the place.
TEST_P(Mistakes, AreErrorsWithTheirPlace) {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    Machine machine(seed);
    const Status status = machine.run("under_test", {.blocks = 3, .threads = kBlock}, GetParam().kernel);
    ASSERT_FALSE(status) << seed;
    EXPECT_THAT(status.error().message(), HasSubstr("kernel under_test: block"));
    EXPECT_THAT(status.error().message(), HasSubstr(", thread "));
    EXPECT_THAT(status.error().message(), HasSubstr("machine_test.cpp:"));
    EXPECT_THAT(status.error().message(), HasSubstr(GetParam().found));
    unsigned threads = 0;
    EXPECT_TRUE(machine.run("next", {.blocks = 1, .threads = kBlock}, [&] {
      sync_block();
      ++threads;
    }));
    EXPECT_EQ(threads, kBlock);
  }
}

const Mistake kMistakes[] = {
    {"half_a_barrier",
     [] {
       if (thread_index() < 32) sync_block();
     },
     "divergent barrier"},
    {"one_thread_left",
     [] {
       if (thread_index() != 17) sync_block();
     },
     "divergent barrier"},
    {"two_barriers_at_once",
     [] {
       if (thread_index() < 10) {
         sync_block();
       } else {
         sync_block();
       }
     },
     "divergent barrier"},
    {"lane_outside_its_mask", [] { ballot(0x0000ffffU, true); }, "not in the mask"},
    {"lane_that_has_ended",
     [] {
       if (thread_index() % 32 != 9) sync_warp();
     },
     "lane"},
    {"two_operations_at_once",
     [] {
       if (thread_index() % 2 == 0) {
         ballot(kWholeWarp, true);
       } else {
         sync_warp();
       }
     },
     "in the warp operation at"},
    {"shuffle_from_outside_the_mask",
     [] {
       if (thread_index() % 32 < 4) shuffle(0xfU, 1, 20);
     },
     "not in the mask of its shuffle"},
    {"masks_that_differ", [] { sync_warp(thread_index() % 32 == 0 ? 0xffffffffU : 0xfffffffeU); }, "warp operation at"},
};

INSTANTIATE_TEST_SUITE_P(Machine, Mistakes, ::testing::ValuesIn(kMistakes),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Machine, AGridThatCudaWouldRefuseIsAnError) {
  EXPECT_FALSE(run(0, {.blocks = 0, .threads = 1}, [] {}));
  EXPECT_FALSE(run(0, {.blocks = 1, .threads = 1025}, [] {}));
  EXPECT_TRUE(run(0, {.blocks = 1, .threads = 1024}, [] { sync_block(); }));
}

TEST(EmulatedDriver, AKernelsMistakeIsTheErrorOfEveryLaterCall) {
  emulation::EmulatedDriver driver({});
  Driver::Stream stream = nullptr;
  ASSERT_EQ(driver.create_stream(stream), 0);
  const auto half = +[]() {
    if (thread_index() > 3) sync_block();
  };
  const int code = launch("half", stream, 1, kBlock, half);
  ASSERT_NE(code, 0);
  EXPECT_THAT(driver.describe(code), HasSubstr("kernel half: block 0, thread"));
  EXPECT_EQ(driver.wait_for(stream), code);
  EXPECT_EQ(driver.destroy_stream(stream), code);
}

}  // namespace
}  // namespace gleaner::cuda::emulated
