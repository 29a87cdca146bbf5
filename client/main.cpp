// gleaner-client run --config FILE

#include <CLI/CLI.hpp>

#include <csignal>
#include <cstdio>

#include "client/net/daemon.hpp"
#include "common/log.hpp"

int main(int argc, char** argv) {
  CLI::App app{"Gleaner's device daemon: trains on data that stays here and sends sparse updates"};
  app.set_version_flag("--version", GLEANER_VERSION);
  app.require_subcommand(1);
  std::string config_path;
  auto* run = app.add_subcommand("run", "connect to the coordinator and take part in its runs");
  run->add_option("--config", config_path, "the device's TOML file")->required();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  const auto config = gleaner::load_client_config(config_path);
  if (!config) {
    std::fprintf(stderr, "%s\n", config.error().message().c_str());
    return 2;
  }
  try {
    gleaner::start_logging({.level = config->log_level, .file = config->log_file, .program = "gleaner-client"});
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 2;
  }
  std::signal(SIGXFSZ, SIG_IGN);  // a file at its size limit (ulimit -f) is an error of that write
  // Until the daemon listens for it: a closed terminal, or a manager that asks for a reload, must not end it.
  std::signal(SIGHUP, SIG_IGN);
  return gleaner::run_daemon(*config);
}
