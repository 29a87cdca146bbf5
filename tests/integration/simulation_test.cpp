// What is simulated is what runs: the same run by real processes over TLS and under virtual time.
#include <fstream>

#include "tests/integration/harness/world.hpp"

namespace gleaner::testing {
namespace {

constexpr std::uint32_t kDevices = 3;

struct Figures {
  std::string hash;
  double frames_up = 0.0;
  double frames_down = 0.0;
  double sockets_up = 0.0;
  double sockets_down = 0.0;
};

class Simulated : public ::testing::TestWithParam<const char*> {};

Figures serve(World& world, const RunOptions& options) {
  world.start_coordinator();
  world.start_run(options);
  for (std::uint32_t i = 0; i < kDevices; ++i) {
    // The simulator's names.
    const std::string name = "device-0" + std::to_string(i);
    world.issue("ca", {.name = name, .addresses = {}, .validity = world.valid()});
    world.configure_client(i, {.certificate = name});
    world.start_client(i);
  }
  Figures figures{.hash = world.finish()};
  // The last word, that the run has ended, is on its way to everybody.
  double before = -1.0;
  EXPECT_TRUE(eventually([&] {
    const double now = world.metric("gleaner_frame_bytes_total{direction=\"down\"}");
    return now > 0.0 && now == std::exchange(before, now);
  }));
  figures.frames_up = world.metric("gleaner_frame_bytes_total{direction=\"up\"}");
  figures.frames_down = world.metric("gleaner_frame_bytes_total{direction=\"down\"}");
  for (std::uint32_t i = 0; i < kDevices; ++i) {
    const std::string label =
        "gleaner_device_socket_bytes_total{device=\"device-0" + std::to_string(i) + "\",direction=";
    figures.sockets_up += world.metric(label + "\"up\"}");
    figures.sockets_down += world.metric(label + "\"down\"}");
  }
  world.end_all();
  return figures;
}

Figures simulate(World& world, const RunOptions& options) {
  // Devices read the toy data from that folder, and split it with seed 1.
  world.write("experiment.toml", World::run_file(options) +
                                     "[population]\ndevices = 3\ndata = \"data\"\npartition = \"iid\"\nsplit_seed = "
                                     "1\n[evaluation]\nevery = 1000\n[simulation]\ncheckpoint_every = 0\n");
  int code = -1;
  Process tool({.program = GLEANER_TOOL,
                .arguments = {"simulate", world.path("experiment.toml"), "--output", world.path("simulated"), "--json",
                              world.path("simulated.json")},
                .environment = {},
                .log = world.path("simulate.log")});
  const auto ended = tool.wait(kPatience);
  code = ended ? ended->exit_code : -1;
  EXPECT_EQ(code, 0) << world.read("simulate.log");
  if (code != 0) return {};
  const auto json = json::parse(world.read("simulated.json")).as_object();
  const auto number = [&](const char* key) { return static_cast<double>(json.at(key).as_int64()); };
  return {.hash = std::string(json.at("model_hash").as_string()),
          .frames_up = number("frame_bytes_up"),
          .frames_down = number("frame_bytes_down"),
          .sockets_up = number("socket_bytes_up"),
          .sockets_down = number("socket_bytes_down")};
}

TEST_P(Simulated, the_model_the_frames_and_nearly_the_sockets_are_those_of_the_service) {
  World world(kDevices);
  const RunOptions options{.recipe = GetParam(), .rounds = 60, .devices = kDevices};
  const Figures real = serve(world, options);
  const Figures virtual_ = simulate(world, options);
  EXPECT_EQ(virtual_.hash, real.hash);
  EXPECT_EQ(virtual_.frames_up, real.frames_up);
  EXPECT_EQ(virtual_.frames_down, real.frames_down);
  EXPECT_NEAR(virtual_.sockets_up / real.sockets_up, 1.0, 0.02) << virtual_.sockets_up << " and " << real.sockets_up;
  EXPECT_NEAR(virtual_.sockets_down / real.sockets_down, 1.0, 0.02)
      << virtual_.sockets_down << " and " << real.sockets_down;
}

INSTANTIATE_TEST_SUITE_P(Recipes, Simulated, ::testing::Values("topk", "gsasg"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace gleaner::testing
