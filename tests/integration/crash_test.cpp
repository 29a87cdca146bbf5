// kill -9 at every boundary between persisting and telling, on both sides: a reproducible run ends with the model and
// the device states of the uninterrupted one. GLEANER_KILLS sets how many random kills there are (20).
#include <csignal>
#include <cstdlib>

#include "common/random.hpp"
#include "common/text.hpp"
#include "storage/database.hpp"
#include "tests/integration/harness/world.hpp"

namespace gleaner::testing {
namespace {

constexpr std::uint32_t kDevices = 3;

RunOptions run_options() { return {.recipe = "gsasg", .rounds = 12, .devices = kDevices}; }

struct Final {
  std::string hash;
  std::vector<DeviceState> devices;
};

Final final_of(World& world) {
  Final result{.hash = world.finish(), .devices = {}};
  for (std::uint32_t i = 0; i < kDevices; ++i) {
    auto state = world.device_state(i, run_options());
    EXPECT_TRUE(state) << state.error().message();
    if (state) result.devices.push_back(std::move(*state));
  }
  return result;
}

// Made once a process: it only depends on the machine.
const Final& uninterrupted() {
  static const Final result = [] {
    World world(kDevices);
    world.start_coordinator();
    world.start_run(run_options());
    world.start_clients();
    Final made = final_of(world);
    world.end_all();
    return made;
  }();
  return result;
}

void expect_equal(const DeviceState& is, const DeviceState& should_be) {
  EXPECT_EQ(is.version, should_be.version);
  EXPECT_EQ(is.model_hash, should_be.model_hash);
  EXPECT_EQ(is.model, should_be.model);
  EXPECT_EQ(is.memory->to_bytes(), should_be.memory->to_bytes()) << "residual or pending part";
  EXPECT_EQ(is.rule_state, should_be.rule_state);
  EXPECT_EQ(is.ever_sent, should_be.ever_sent);
  EXPECT_EQ(is.last_sent_round, should_be.last_sent_round);
  EXPECT_EQ(is.zeroed_coordinates, 0U);
  ASSERT_EQ(is.answer.has_value(), should_be.answer.has_value());
  if (!is.answer) return;
  EXPECT_EQ(is.answer->plan, should_be.answer->plan);
  EXPECT_EQ(is.answer->send, should_be.answer->send);
  EXPECT_EQ(is.answer->digest, should_be.answer->digest);
}

void expect_as_uninterrupted(World& world) {
  const Final result = final_of(world);
  EXPECT_EQ(result.hash, uninterrupted().hash);
  ASSERT_EQ(result.devices.size(), uninterrupted().devices.size());
  for (std::size_t i = 0; i < result.devices.size(); ++i) {
    SCOPED_TRACE(World::client_name(static_cast<std::uint32_t>(i)));
    expect_equal(result.devices[i], uninterrupted().devices[i]);
  }
}

// What a killed coordinator left on disk is what it comes back with.
void restart_coordinator(World& world) {
  const auto database = Database::open(world.path("coordinator.db"), Database::Access::inspect);
  ASSERT_TRUE(database) << database.error().message();
  const RunRow row = (*database)->runs()->front();
  world.start_coordinator();
  if (row.version.value == 0 || row.state == RunState::finished) return;
  EXPECT_THAT(world.coordinator_log(), ::testing::HasSubstr("recovered version " + std::to_string(row.version.value) +
                                                            " (hash " + to_hex(row.model_hash) + ")"));
}

class CoordinatorFailpoint : public ::testing::TestWithParam<const char*> {};

TEST_P(CoordinatorFailpoint, killed_there_the_run_ends_as_if_nothing_had_happened) {
  ASSERT_NE(uninterrupted().hash, "");
  World world(kDevices);
  world.start_coordinator();
  world.start_run(run_options());
  world.coordinator().kill();
  world.start_coordinator(kill_at(GetParam()));
  world.start_clients();
  ASSERT_EQ(world.coordinator().wait(kPatience), std::optional(kKilled)) << "the failpoint is never reached";
  restart_coordinator(world);
  expect_as_uninterrupted(world);
  world.end_all();
}

std::string readable(const ::testing::TestParamInfo<const char*>& info) {
  std::string name = info.param;
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(Everywhere, CoordinatorFailpoint,
                         ::testing::Values("coordinator.plans.before_store:1", "coordinator.plans.before_store:5",
                                           "coordinator.plans.stored:1", "coordinator.plans.stored:5",
                                           "coordinator.plan.before_send:2", "coordinator.plan.before_send:8",
                                           "coordinator.commit.before:1", "coordinator.commit.before:6",
                                           "storage.commit.before_end:1", "storage.commit.before_end:6",
                                           "coordinator.commit.stored:1", "coordinator.commit.stored:6",
                                           "coordinator.commit.stored:12", "coordinator.outcome.before_send:1",
                                           "coordinator.outcome.before_send:6", "coordinator.snapshot.begun:1",
                                           "coordinator.snapshot.piece:1", "coordinator.snapshot.finished:1",
                                           "coordinator.finish.before_store:1", "coordinator.finish.stored:1"),
                         readable);

class ClientFailpoint : public ::testing::TestWithParam<const char*> {};

TEST_P(ClientFailpoint, killed_there_the_run_ends_as_if_nothing_had_happened) {
  ASSERT_NE(uninterrupted().hash, "");
  World world(kDevices);
  world.start_coordinator();
  world.start_run(run_options());
  world.start_client(1);
  world.start_client(2);
  ASSERT_EQ(world.start_client(0, kill_at(GetParam())).wait(kPatience), std::optional(kKilled))
      << "the failpoint is never reached";
  world.start_client(0);
  expect_as_uninterrupted(world);
  world.end_all();
}

INSTANTIATE_TEST_SUITE_P(Everywhere, ClientFailpoint,
                         ::testing::Values("client.state.written:1", "client.state.written:4", "client.state.synced:1",
                                           "client.state.synced:4", "client.state.renamed:1", "client.state.renamed:4",
                                           "client.answer.stored:1", "client.answer.stored:4",
                                           "client.answer.before_send:1", "client.answer.before_send:4",
                                           "client.answer.sent:1", "client.answer.sent:4", "client.settled:1",
                                           "client.settled:4"),
                         readable);

// Dies at this moment of its restart too: the outcome that a returning device asks for is on its way.
TEST(Crash, killed_again_while_it_tells_a_returning_device_the_outcome) {
  ASSERT_NE(uninterrupted().hash, "");
  World world(kDevices);
  world.start_coordinator(kill_at("coordinator.outcome.before_send:4"));
  world.start_run(run_options());
  world.start_clients();
  ASSERT_EQ(world.coordinator().wait(kPatience), std::optional(kKilled));
  world.start_coordinator(kill_at("coordinator.settle.before_send:1"));
  ASSERT_EQ(world.coordinator().wait(kPatience), std::optional(kKilled)) << "the failpoint is never reached";
  restart_coordinator(world);
  expect_as_uninterrupted(world);
  world.end_all();
}

// Everybody dies at any moment, one after the other.
TEST(Crash, killed_at_random_moments_the_run_ends_as_if_nothing_had_happened) {
  ASSERT_NE(uninterrupted().hash, "");
  const char* wanted = std::getenv("GLEANER_KILLS");
  const int kills = wanted != nullptr ? std::atoi(wanted) : 20;
  int done = 0;
  for (std::uint64_t federation = 0; done < kills; ++federation) {
    SCOPED_TRACE("federation " + std::to_string(federation));
    Random random(99, Purpose::test, federation);
    World world(kDevices);
    world.start_coordinator();
    world.start_run(run_options());
    world.start_clients();
    int client_kills = 0;
    for (int here = 0; here < 10 && done < kills; ++here) {
      // A device that comes back too often within one life of the coordinator is taken for two.
      const std::uint32_t victim = client_kills >= 6 ? kDevices : random.below(kDevices + 1);
      Process& process = victim == kDevices ? world.coordinator() : world.client(victim);
      if (process.wait(milliseconds(random.below(120)))) break;
      if (world.version() >= run_options().rounds) break;
      process.kill();
      ++done;
      if (victim == kDevices) {
        restart_coordinator(world);
        client_kills = 0;
      } else {
        world.start_client(victim);
        ++client_kills;
      }
    }
    expect_as_uninterrupted(world);
    if (HasFailure()) return;
    world.end_all();
  }
}

}  // namespace
}  // namespace gleaner::testing
