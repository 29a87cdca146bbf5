// gleaner-coordinator serve --config FILE

#include <CLI/CLI.hpp>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <csignal>
#include <cstdio>

#include "common/log.hpp"
#include "coordinator/net/service.hpp"

namespace {

// A round's uploads come and go within seconds. By itself glibc keeps what they held: a heap for each thread, and a
// threshold for giving large blocks back that grows with the largest that was ever freed.
void give_memory_back() {
#ifdef __GLIBC__
  ::mallopt(M_ARENA_MAX, 2);
  ::mallopt(M_MMAP_THRESHOLD, 128 << 10);
  ::mallopt(M_TRIM_THRESHOLD, 1 << 20);
#endif
}

}  // namespace

int main(int argc, char** argv) {
  give_memory_back();
  CLI::App app{"Gleaner's coordinator: plans rounds, gathers sparse updates, keeps the model"};
  app.set_version_flag("--version", GLEANER_VERSION);
  app.require_subcommand(1);
  std::string config_path;
  gleaner::ServiceOptions options;
  auto* serve = app.add_subcommand("serve", "serve devices and operators until told to stop");
  serve->add_option("--config", config_path, "the coordinator's TOML file")->required();
  serve->add_option("--ready-fd", options.ready_fd, "descriptor that gets the ports in use once everything listens");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  const auto config = gleaner::load_coordinator_config(config_path);
  if (!config) {
    std::fprintf(stderr, "%s\n", config.error().message().c_str());
    return 2;
  }
  try {
    gleaner::start_logging({.level = config->log_level, .file = config->log_file, .program = "gleaner-coordinator"});
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 2;
  }
  std::signal(SIGXFSZ, SIG_IGN);  // a file at its size limit (ulimit -f) is an error of that write
  std::signal(SIGHUP, SIG_IGN);   // until the service listens for it: recovery may take a while
  return gleaner::run_service(*config, options);
}
