#include "training/cohort_trainer.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <new>
#include <numeric>

#include "training/synthetic.hpp"

namespace gleaner {
namespace {

struct Cohort {
  explicit Cohort(const std::string& model)
      : dataset(synthetic_dataset({.samples = 400, .classes = 5, .height = 16, .width = 16}, {})),
        spec(*model_spec(model, dataset, {.hidden = model == "softmax" ? 0U : 16U})),
        parameters(initial_parameters(spec, 7)) {
    std::uint32_t next = 0;
    for (std::uint32_t device = 0; device < 12; ++device) {
      std::vector<std::uint32_t> samples(5 + 4 * ((device * 7) % 12));
      std::iota(samples.begin(), samples.end(), next);
      next += static_cast<std::uint32_t>(samples.size());
      lists.push_back(samples);
    }
    for (std::uint32_t device = 0; device < lists.size(); ++device) {
      turns.push_back({.samples = lists[device],
                       .parameters = parameters,
                       .work = {.epochs = 2, .batch_size = 10, .momentum = device % 3 == 0 ? 0.9F : 0.0F},
                       .turn = {.seed = 3, .round = 4, .device = device}});
    }
  }

  std::vector<LocalResult> run(unsigned threads) const {
    WorkerPool pool(threads);
    std::vector<LocalResult> results;
    train_cohort(pool, spec, dataset, turns, [&](std::size_t turn, Result<LocalResult> result) {
      EXPECT_EQ(turn, results.size());
      ASSERT_TRUE(result.has_value()) << result.error().message();
      results.push_back(*std::move(result));
    });
    return results;
  }

  Dataset dataset;
  ModelSpec spec;
  std::vector<float> parameters;
  std::vector<std::vector<std::uint32_t>> lists;
  std::vector<CohortTurn> turns;
};

class CohortOf : public ::testing::TestWithParam<const char*> {};

TEST_P(CohortOf, SameBitsForEveryNumberOfThreads) {
  const Cohort cohort(GetParam());
  const auto alone = cohort.run(1);
  ASSERT_EQ(alone.size(), cohort.turns.size());
  for (std::size_t i = 0; i < alone.size(); ++i) {
    Network fresh(cohort.spec);
    const CohortTurn& turn = cohort.turns[i];
    const auto expected = train_local(fresh, cohort.dataset, turn.samples, turn.parameters, turn.work, turn.turn);
    EXPECT_EQ(alone[i].delta, expected->delta) << "device " << i;
    EXPECT_EQ(alone[i].mean_loss, expected->mean_loss);
  }
  for (const unsigned threads : {2U, 5U}) {
    const auto many = cohort.run(threads);
    ASSERT_EQ(many.size(), alone.size());
    for (std::size_t i = 0; i < alone.size(); ++i) {
      EXPECT_EQ(many[i].delta, alone[i].delta) << "device " << i << " with " << threads << " threads";
      EXPECT_EQ(many[i].steps, alone[i].steps);
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Models, CohortOf, ::testing::Values("softmax", "mlp", "lenet"));

TEST(CohortTrainer, AnErrorIsTheDevicesOwn) {
  Cohort cohort("softmax");
  cohort.turns[3].samples = {};
  WorkerPool pool(2);
  std::vector<bool> succeeded;
  train_cohort(pool, cohort.spec, cohort.dataset, cohort.turns, [&](std::size_t, const Result<LocalResult>& result) {
    succeeded.push_back(result.has_value());
    if (!result) EXPECT_NE(result.error().message().find("no samples"), std::string::npos);
  });
  std::vector<bool> expected(cohort.turns.size(), true);
  expected[3] = false;
  EXPECT_EQ(succeeded, expected);
}

// With one thread the order is plain to see: what is waited for comes first, then a wait for what ran already is
// nothing.
TEST(WorkerPool, WaitingRunsWhatIsWaitedFor) {
  WorkerPool pool(1);
  EXPECT_EQ(pool.threads(), 1U);
  std::vector<int> order;
  std::vector<Ticket> tickets;
  for (const int job : {0, 1, 2}) {
    tickets.push_back(pool.submit(job, [&order, job](WorkerScratch&) { order.push_back(job); }));
  }
  EXPECT_FALSE(tickets[1].is_done());
  tickets[1].wait();
  EXPECT_TRUE(tickets[1].is_done());
  tickets[1].wait();
  EXPECT_EQ(order, std::vector<int>{1});
  tickets[0].wait();
  tickets[2].wait();
  EXPECT_EQ(order, (std::vector<int>{1, 0, 2}));
}

// The only worker is held until all are queued; what it takes then is ordered by cost, equals by arrival.
TEST(WorkerPool, TakesTheMostExpensiveFirst) {
  WorkerPool pool(2);
  std::latch started(1);
  std::latch go(1);
  std::vector<int> order;
  Ticket gate = pool.submit(0.0, [&](WorkerScratch&) {
    started.count_down();
    go.wait();
  });
  started.wait();
  std::vector<Ticket> tickets;
  std::latch all(5);
  for (const int job : {3, 1, 30, 2, 31}) {
    tickets.push_back(pool.submit(job / (job >= 30 ? 10 : 1), [&order, &all, job](WorkerScratch&) {
      order.push_back(job);
      all.count_down();
    }));
  }
  go.count_down();
  all.wait();
  EXPECT_EQ(order, (std::vector<int>{3, 30, 31, 2, 1}));
}

// While the awaited job runs elsewhere, the waiting thread works off the others: this job ends only when they have.
TEST(WorkerPool, AWaitingThreadHelps) {
  WorkerPool pool(2);
  std::latch others(3);
  std::latch started(1);
  Ticket first = pool.submit(9.0, [&](WorkerScratch&) {
    started.count_down();
    others.wait();
  });
  started.wait();
  std::vector<Ticket> tickets;
  for (int i = 0; i < 3; ++i) tickets.push_back(pool.submit(1.0, [&](WorkerScratch&) { others.count_down(); }));
  first.wait();
  EXPECT_TRUE(others.try_wait());
}

TEST(WorkerPool, AForgottenTicketTakesItsJobBack) {
  WorkerPool pool(1);
  auto witness = std::make_shared<int>(0);
  {
    const Ticket ticket = pool.submit(1.0, [witness](WorkerScratch&) { ++*witness; });
    EXPECT_EQ(witness.use_count(), 2);
  }
  EXPECT_EQ(witness.use_count(), 1);
  EXPECT_EQ(*witness, 0);
  Ticket replaced = pool.submit(1.0, [witness](WorkerScratch&) { *witness += 10; });
  replaced = pool.submit(1.0, [witness](WorkerScratch&) { *witness += 100; });
  replaced.wait();
  EXPECT_EQ(*witness, 100);
}

// Dropping a ticket of a running job waits: the job's captures are the owner's locals.
TEST(WorkerPool, ARunningJobIsWaitedFor) {
  WorkerPool pool(2);
  for (int i = 0; i < 50; ++i) {
    std::atomic<bool> ended = false;
    std::latch started(1);
    {
      const Ticket ticket = pool.submit(1.0, [&](WorkerScratch&) {
        started.count_down();
        ended = true;
      });
      started.wait();
    }
    EXPECT_TRUE(ended);
  }
}

TEST(WorkerPool, OutOfMemoryReachesWhoeverWaits) {
  for (const unsigned threads : {1U, 2U}) {
    WorkerPool pool(threads);
    Ticket bad = pool.submit(1.0, [](WorkerScratch&) { throw std::bad_alloc(); });
    Ticket good = pool.submit(1.0, [](WorkerScratch&) {});
    EXPECT_THROW(bad.wait(), std::bad_alloc);
    EXPECT_NO_THROW(good.wait());
  }
}

// 400 jobs from several threads at once, each waited for by its own.
TEST(WorkerPool, ManyThreadsSubmitAndWait) {
  WorkerPool pool(3);
  std::atomic<std::uint64_t> sum = 0;
  {
    std::vector<std::jthread> owners;
    for (std::uint64_t owner = 0; owner < 4; ++owner) {
      owners.emplace_back([&pool, &sum, owner] {
        std::vector<Ticket> tickets;
        std::vector<std::uint64_t> results(100);
        for (std::uint64_t i = 0; i < results.size(); ++i) {
          tickets.push_back(pool.submit(static_cast<double>(i % 7),
                                        [&results, i, owner](WorkerScratch&) { results[i] = owner * 1000 + i; }));
        }
        for (Ticket& ticket : tickets) ticket.wait();
        for (const std::uint64_t result : results) sum += result;
      });
    }
  }
  EXPECT_EQ(sum, 100U * (0 + 1000 + 2000 + 3000) + 4U * 4950U);
}

TEST(WorkerPool, KeepsNetworksBetweenJobs) {
  const Cohort cohort("softmax");
  WorkerPool pool(1);
  const Network* first = nullptr;
  const Network* second = nullptr;
  pool.submit(1.0, [&](WorkerScratch& scratch) { first = &scratch.network_for(cohort.spec); }).wait();
  pool.submit(1.0, [&](WorkerScratch& scratch) { second = &scratch.network_for(cohort.spec); }).wait();
  EXPECT_EQ(first, second);
  // The last few stay, in the order of their use.
  const auto other = [&](std::uint32_t hidden) { return *model_spec("mlp", cohort.dataset, {.hidden = hidden}); };
  pool.submit(1.0,
              [&](WorkerScratch& scratch) {
                for (std::uint32_t hidden = 1; hidden <= 10; ++hidden) {
                  scratch.network_for(other(hidden));
                  EXPECT_EQ(&scratch.network_for(cohort.spec), first);
                }
              })
      .wait();
}

TEST(WorkerPoolDeathTest, AJobMustNotWait) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        WorkerPool pool(1);
        Ticket inner = pool.submit(1.0, [](WorkerScratch&) {});
        Ticket outer = pool.submit(1.0, [&](WorkerScratch&) { inner.wait(); });
        outer.wait();
      },
      "inside_job");
}

}  // namespace
}  // namespace gleaner
