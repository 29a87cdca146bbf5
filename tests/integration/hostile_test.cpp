// A device that lies, over real TLS: each lie is refused by its name or ends the connection, is counted, and changes
// nothing for the honest ones.
#include <set>

#include "common/hash.hpp"
#include "compression/payload.hpp"
#include "tests/integration/harness/fake_device.hpp"

namespace gleaner::testing {
namespace {

using ::testing::HasSubstr;

constexpr std::uint32_t kHonest = 2;
constexpr std::uint32_t kSamples = 60;
#if defined(__SANITIZE_ADDRESS__) || (defined(__has_feature) && __has_feature(address_sanitizer))
constexpr double kGrowthMax = 512e6;  // freed memory lies in quarantine
#else
constexpr double kGrowthMax = 64e6;
#endif

struct Attack {
  const char* name;
  RefusalCode code;  // none: the connection ends
  std::function<void(FakeDevice&, const Plan&)> act;
};

Update update_of(const Plan& plan, const Bytes& payload) {
  return {.plan = plan.id,
          .digest = digest_of(payload),
          .samples = kSamples,
          .total_bytes = static_cast<std::uint32_t>(payload.size()),
          .offset = 0,
          .bytes = payload};
}

// A group of f32 values under a list of indices, as docs/payload.md has it, true or not.
Bytes list_payload(std::initializer_list<std::pair<std::uint32_t, float>> entries) {
  Bytes bytes;
  ByteWriter out(bytes);
  out.put_varint(entries.size());
  out.put<std::uint8_t>(0);
  for (const auto& [index, value] : entries) out.put(index);
  for (const auto& [index, value] : entries) out.put(value);
  return bytes;
}

void send_payload(FakeDevice& device, const Plan& plan, const Bytes& payload) { device.send(update_of(plan, payload)); }

Bytes too_many_entries(const Plan& plan) {
  Bytes bytes;
  ByteWriter out(bytes);
  out.put_varint(plan.entries_max + 1);
  out.put<std::uint8_t>(0);
  for (std::uint32_t i = 0; i <= plan.entries_max; ++i) out.put(i);
  for (std::uint32_t i = 0; i <= plan.entries_max; ++i) out.put(1.0F);
  return bytes;
}

Bytes header(std::uint32_t body_bytes, std::uint8_t type) {
  Bytes bytes;
  ByteWriter out(bytes);
  out.put(body_bytes);
  out.put(type);
  return bytes;
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr std::uint8_t kUpdateType = 9;

std::vector<Attack> attacks() {
  const auto payload = [](Bytes bytes) {
    return [bytes](FakeDevice& device, const Plan& plan) { send_payload(device, plan, bytes); };
  };
  return {
      {"not a number", RefusalCode::non_finite, payload(list_payload({{1, 1.0F}, {2, kNan}}))},
      {"infinity", RefusalCode::non_finite, payload(list_payload({{1, kInfinity}}))},
      {"beyond the clip", RefusalCode::over_bound, payload(list_payload({{1, 1e30F}}))},
      {"index out of range", RefusalCode::index_out_of_range, payload(list_payload({{1'000'000, 1.0F}}))},
      {"unsorted", RefusalCode::unsorted_index, payload(list_payload({{5, 1.0F}, {3, 1.0F}}))},
      {"repeated", RefusalCode::repeated_index, payload(list_payload({{5, 1.0F}, {5, 1.0F}}))},
      {"truncated", RefusalCode::malformed, payload(header(7, 0))},
      {"more than granted", RefusalCode::too_many_entries,
       [](FakeDevice& device, const Plan& plan) { send_payload(device, plan, too_many_entries(plan)); }},
      {"wrong digest", RefusalCode::wrong_digest,
       [](FakeDevice& device, const Plan& plan) {
         const Bytes bytes = list_payload({{1, 1.0F}});
         Update update = update_of(plan, bytes);
         update.digest.value += 1;
         device.send(update);
       }},
      {"wrong weight", RefusalCode::wrong_weight,
       [](FakeDevice& device, const Plan& plan) {
         const Bytes bytes = list_payload({{1, 1.0F}});
         Update update = update_of(plan, bytes);
         update.samples = 1'000'000;
         device.send(update);
       }},
      {"a gap between chunks", RefusalCode::none,
       [](FakeDevice& device, const Plan& plan) {
         const Bytes bytes = list_payload({{1, 1.0F}, {2, 1.0F}});
         Update update = update_of(plan, bytes);
         update.bytes = ByteView(bytes).first(3);
         device.send(update);
         update.offset = 5;
         update.bytes = ByteView(bytes).subspan(5);
         device.send(update);
       }},
      {"a second hello", RefusalCode::none, [](FakeDevice& device, const Plan&) { device.hello(); }},
      {"what only the coordinator says", RefusalCode::none,
       [](FakeDevice& device, const Plan&) { device.send(Drain{1000}); }},
      {"an oversized frame", RefusalCode::none,
       [](FakeDevice& device, const Plan&) { device.send_bytes(header(0xffff'ffffU, kUpdateType)); }},
      {"garbage", RefusalCode::none,
       [](FakeDevice& device, const Plan&) { device.send_bytes(Bytes(4096, std::byte{0xa5})); }},
  };
}

RunOptions run_options() {
  return {.recipe = "topk", .rounds = static_cast<std::uint32_t>(attacks().size()), .devices = kHonest + 1};
}

struct Federation {
  Federation() : world(kHonest) {
    world.issue("ca", {.name = "mallory", .addresses = {}, .validity = world.valid()});
    world.start_coordinator();
    world.start_run(run_options());
    world.start_clients();
  }
  World world;
};

// The rounds as they are when the third device has nothing to say.
std::string hash_with_a_silent_third() {
  Federation federation;
  FakeDevice device(federation.world, "mallory");
  auto plan = device.join(kSamples);
  for (std::uint32_t round = 1; plan; ++round) {
    device.send(Skip{.plan = plan->id, .samples = kSamples});
    if (round == run_options().rounds) break;
    plan = device.wait_for<Plan>();
  }
  return federation.world.finish();
}

void attack(World& world, FakeDevice& device, Plan& plan, const Attack& attack) {
  SCOPED_TRACE(attack.name);
  attack.act(device, plan);
  if (attack.code != RefusalCode::none) {
    const auto refused = device.wait_for<Refused>();
    ASSERT_TRUE(refused) << device.end();
    EXPECT_EQ(refused->code, attack.code) << to_string(refused->code) << ": " << refused->detail;
    EXPECT_EQ(refused->plan, plan.id);
    EXPECT_GE(world.metric("gleaner_refusals_total{code=\"" + std::string(to_string(attack.code)) + "\"}"), 1.0);
    return;
  }
  EXPECT_TRUE(device.is_dropped()) << "the connection is still there";
  const auto again = device.join(kSamples);
  ASSERT_TRUE(again) << device.end();
  EXPECT_EQ(again->id, plan.id) << "its plan is still open";
  device.send(Skip{.plan = plan.id, .samples = kSamples});
}

TEST(Hostile, lies_are_refused_by_name_and_change_nothing) {
  const std::string expected = hash_with_a_silent_third();
  ASSERT_NE(expected, "");
  Federation federation;
  World& world = federation.world;
  FakeDevice device(world, "mallory");
  auto plan = device.join(kSamples);
  const auto all = attacks();
  double resident_before = 0.0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    ASSERT_TRUE(plan) << "before " << all[i].name << ": " << device.end();
    if (i == 1) resident_before = world.metric("gleaner_process_resident_bytes");
    attack(world, device, *plan, all[i]);
    if (::testing::Test::HasFailure()) return;
    if (i + 1 < all.size()) plan = device.wait_for<Plan>();
  }
  EXPECT_EQ(world.finish(), expected);
  EXPECT_LT(world.metric("gleaner_process_resident_bytes") - resident_before, kGrowthMax);
  EXPECT_EQ(world.metric("gleaner_inflight_payload_bytes"), 0.0);
}

TEST(Hostile, plans_of_nobody_and_of_others_are_refused) {
  Federation federation;
  World& world = federation.world;
  FakeDevice device(world, "mallory");
  const auto plan = device.join(kSamples);
  ASSERT_TRUE(plan);
  Plan other = *plan;
  for (const std::uint64_t id : {plan->id.value + 1'000'000, std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{3}}) {
    if (id == plan->id.value) continue;
    other.id.value = id;
    send_payload(device, other, list_payload({{1, 1.0F}}));
    const auto refused = device.wait_for<Refused>();
    ASSERT_TRUE(refused) << device.end();
    EXPECT_EQ(refused->code, RefusalCode::stale_plan) << "plan " << id;
    device.send(Skip{.plan = {id}, .samples = kSamples});
    const auto skip_refused = device.wait_for<Refused>();
    ASSERT_TRUE(skip_refused) << device.end();
    EXPECT_EQ(skip_refused->code, RefusalCode::stale_plan) << "plan " << id;
  }
  EXPECT_EQ(world.version(), 0U) << "the round waits for its own answer";
}

TEST(Hostile, another_model_is_turned_away) {
  Federation federation;
  FakeDevice device(federation.world, "mallory");
  ASSERT_TRUE(device.connect());
  device.hello();
  const auto offer = device.wait_for<Offer>();
  ASSERT_TRUE(offer);
  device.send(Accept{.run = offer->spec.id, .samples = kSamples, .schema_hash = offer->spec.schema_hash + 1});
  const auto failure = device.wait_for<Failure>();
  ASSERT_TRUE(failure) << device.end();
  EXPECT_THAT(failure->text, HasSubstr("other tensors"));
}

// What a restored database looks like; a liar can have it once, not in every round.
TEST(Hostile, a_claimed_later_version_is_believed_once) {
  Federation federation;
  World& world = federation.world;
  std::set<std::uint64_t> lineages;
  for (int i = 0; i < 4; ++i) {
    FakeDevice device(world, "mallory");
    ASSERT_TRUE(device.connect());
    device.hello();
    const auto offer = device.wait_for<Offer>();
    ASSERT_TRUE(offer) << device.end();
    lineages.insert(offer->lineage.value);
    device.send(Accept{.run = offer->spec.id,
                       .samples = kSamples,
                       .schema_hash = offer->spec.schema_hash,
                       .has_model = true,
                       .lineage = offer->lineage,
                       .version = {1'000'000},
                       .model_hash = 1});
    device.send(Heartbeat{});
    ASSERT_TRUE(device.wait_for<Heartbeat>()) << device.end();
    ASSERT_TRUE(eventually([&] { return count_lines(world.coordinator_log(), "a new lineage begins") == 1; }));
  }
  EXPECT_EQ(lineages.size(), 2U);
  EXPECT_EQ(count_lines(world.coordinator_log(), "a new lineage begins"), 1U);
  FakeDevice device(world, "mallory");
  auto plan = device.join(kSamples);
  for (std::uint32_t round = 1; plan; ++round) {
    device.send(Skip{.plan = plan->id, .samples = kSamples});
    if (round == run_options().rounds) break;
    plan = device.wait_for<Plan>();
  }
  EXPECT_NE(world.finish(), "") << "the honest ones go on";
}

TEST(Hostile, silence_dribbling_and_deafness_hold_up_nobody) {
  World world(kHonest);
  world.configure({.limits = "heartbeat = \"1s\"\nhandshake_timeout = \"1s\"\n"});
  for (const char* name : {"silent", "hushed", "dribbler", "deaf"}) {
    world.issue("ca", {.name = name, .addresses = {}, .validity = world.valid()});
  }
  world.start_coordinator();
  FakeDevice dribbler(world, "dribbler");  // begins a frame and never ends it
  ASSERT_TRUE(dribbler.connect());
  dribbler.hello();
  ASSERT_TRUE(dribbler.wait_for<Welcome>());
  dribbler.send_bytes(Bytes(2, std::byte{1}));
  FakeDevice silent(world, "silent");  // no hello
  ASSERT_TRUE(silent.connect());
  FakeDevice hushed(world, "hushed");  // a hello and nothing more
  ASSERT_TRUE(hushed.connect());
  hushed.hello();
  FakeDevice deaf(world, "deaf");  // asks for answers and never reads them
  ASSERT_TRUE(deaf.connect());
  deaf.hello();
  const double resident_before = world.metric("gleaner_process_resident_bytes");
  Bytes many;
  for (int i = 0; i < 20'000; ++i) ByteWriter(many).put_bytes(encode_frame(Heartbeat{}));
  for (int i = 0; i < 20; ++i) deaf.send_bytes(many);

  const RunOptions run{.rounds = 5, .devices = kHonest};
  world.start_run(run);
  world.start_clients();
  EXPECT_NE(world.finish(), "") << "the honest ones are held up";
  EXPECT_TRUE(silent.is_dropped());
  EXPECT_TRUE(hushed.is_dropped());
  EXPECT_TRUE(dribbler.is_dropped());
  EXPECT_LT(world.metric("gleaner_process_resident_bytes") - resident_before, kGrowthMax);
}

}  // namespace
}  // namespace gleaner::testing
