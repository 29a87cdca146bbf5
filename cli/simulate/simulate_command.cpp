#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <boost/json.hpp>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <limits>

#include "cli/commands.hpp"
#include "cli/new_file.hpp"
#include "cli/simulate/output_folder.hpp"
#include "cli/simulate/progress.hpp"
#include "common/log.hpp"
#include "common/text.hpp"
#include "simulation/finished.hpp"
#include "simulation/output/plot.hpp"
#include "simulation/stage.hpp"
#include "simulation/trials.hpp"

namespace gleaner::cli {
namespace {

namespace fs = std::filesystem;
using namespace simulation;

struct SimulateOptions {
  std::vector<std::string> files;  // one experiment; with --plot, recordings
  std::string output;
  std::string json_file;
  std::string faults;
  std::uint64_t seeds = 0;
  std::uint64_t first_seed = 0;  // 0: 1 for trials, the experiment's own otherwise
  std::optional<std::uint32_t> checkpoint_every, rounds, threads;
  std::optional<std::uint64_t> seed;
  bool resume = false;
  bool plot = false;
  bool quiet = false;
};

std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free);
// The first asks for an end after the round, the second does not wait for it.
void on_interrupt(int) {
  if (interrupted.exchange(true)) std::_Exit(130);
  constexpr std::string_view kHeard = "\nStops after this round; a second signal stops at once.\n";
  (void)!::write(STDERR_FILENO, kHeard.data(), kHeard.size());
}

Result<Experiment> experiment_of(const SimulateOptions& options) {
  if (options.files.size() != 1) return fail(ErrorCode::bad_input, "name one experiment file (several are for --plot)");
  GLEANER_ASSIGN(Experiment experiment, load_experiment(options.files.front()));
  if (options.rounds) experiment.run.rounds = *options.rounds;
  if (options.seed) experiment.run.spec.seed = experiment.run.planning.seed = *options.seed;
  if (options.threads) experiment.threads = *options.threads;
  if (options.checkpoint_every) experiment.checkpoint_every = *options.checkpoint_every;
  // Trials run the experiment without faults first; everything else runs it as it is.
  if (!options.faults.empty() && options.seeds == 0) {
    const std::uint64_t seed = options.first_seed == 0 ? experiment.faults.seed : options.first_seed;
    GLEANER_ASSIGN(experiment.faults, faults_of_level(options.faults));
    experiment.faults.seed = seed;
  }
  if (!options.output.empty()) experiment.output = absolute(options.output);
  if (experiment.output.empty()) experiment.output = absolute(experiment.run.spec.name + ".simulation");
  return experiment;
}

void print_head(Console& console, const Stage& stage) {
  const Experiment& e = stage.experiment();
  const RunSpec& run = e.run.spec;
  console.out << fmt::format(
      "{}: {} devices, {} a round, train a {} of {} parameters on {} for {} rounds with recipe {}\n", run.name,
      e.population.devices, e.run.planning.cohort_size == 0 ? "all" : std::to_string(e.run.planning.cohort_size),
      run.model, run.dimension, e.data_label(), e.run.rounds, run.recipe);
  console.out << split_table(stage.data().all()) << std::flush;
}

std::string summary_json(const Stage& stage, const Federation& federation, const std::vector<RoundRecord>& rounds) {
  const Experiment& e = stage.experiment();
  boost::json::object json{{"experiment", e.run.spec.name},
                           {"data", e.data_label()},
                           {"recipe", e.run.spec.recipe},
                           {"rounds", rounds.size()},
                           {"devices", e.population.devices},
                           {"seed", e.run.spec.seed},
                           {"model_hash", to_hex(federation.status().row.model_hash)},
                           {"virtual_s", federation.virtual_seconds()},
                           {"real_s", federation.real_seconds()},
                           {"samples_trained", federation.samples_trained()}};
  std::uint64_t uploads = 0, skips = 0;
  for (const auto& round : rounds) {
    uploads += round.uploads;
    skips += round.skips;
    if (round.accuracy) json["test_accuracy"] = *round.accuracy;
    if (round.loss) json["test_loss"] = *round.loss;
  }
  // All that was said, the end of the run included, which is said after the last round.
  const LineBytes& bytes = federation.bytes();
  json["socket_bytes_up"] = bytes.sockets_up;
  json["socket_bytes_down"] = bytes.sockets_down;
  json["frame_bytes_up"] = bytes.frames_up;
  json["frame_bytes_down"] = bytes.frames_down;
  json["uploads"] = uploads;
  json["skips"] = skips;
  return boost::json::serialize(json) + "\n";
}

Status write_json(const std::string& path, const std::string& text) {
  GLEANER_ASSIGN(auto file, NewFile::create(path, Existing::replace));
  GLEANER_TRY(file.write(as_bytes(text)));
  return file.commit();
}

std::string where_it_lies(const std::string& folder, std::uint64_t model_hash) {
  return fmt::format("Rounds: {0}/rounds.jsonl and .csv   model: {0}/state/run.db   hash: {1}\n", folder,
                     to_hex(model_hash));
}

std::string how_it_goes_on(const Federation& federation, bool has_checkpoints) {
  const std::uint32_t done = federation.rounds_done();
  if (!has_checkpoints)
    return fmt::format("Stopped after round {}. Without checkpoints there is nothing to go on from.\n", done);
  const std::uint32_t from = federation.resumable_from();
  std::string again;
  if (from + 1 == done) again = fmt::format(": it runs round {} again", done);
  if (from + 1 < done) again = fmt::format(": it runs rounds {} to {} again", from + 1, done);
  return fmt::format(
      "Stopped after round {}. --resume goes on from the checkpoint after round {}{}, and ends as if nothing "
      "had stopped it.\n",
      done, from, again);
}

int tell_finished(Console& console, const Stage& stage, const FinishedExperiment& finished) {
  console.out << final_table(stage.label(), finished.rounds)
              << "Finished already: there is nothing to go on with. More rounds are another experiment.\n"
              << where_it_lies(stage.experiment().output, finished.model_hash);
  return kOk;
}

// The exit code: kFailure for one that was stopped before its end.
Result<int> run_experiment(Console& console, const SimulateOptions& options) {
  GLEANER_ASSIGN(auto experiment, experiment_of(options));
  const std::string folder = experiment.output;
  // Whether it can be written is said before the work, not after it.
  if (!options.json_file.empty()) GLEANER_TRY(NewFile::create(options.json_file, Existing::replace));
  GLEANER_ASSIGN(const auto ranks, join_ranks());
  GLEANER_ASSIGN(auto stage, Stage::set(std::move(experiment), ranks.get()));
  if (ranks && ranks->rank() > 0) {
    stage->serve();
    return kOk;
  }
  GLEANER_ASSIGN(const auto held, options.resume ? OutputFolder::reopen(folder) : OutputFolder::make(folder));
  if (options.resume && options.json_file.empty()) {
    GLEANER_ASSIGN(const auto finished, find_finished(stage->experiment(), folder));
    if (finished) return tell_finished(console, *stage, *finished);
  }
  if (!options.quiet) print_head(console, *stage);

  std::optional<RoundOutput> output;
  std::optional<SimulationProgress> progress;
  Federation::Needs needs = stage->needs(folder + "/state");
  needs.checkpoint_every = stage->experiment().checkpoint_every;
  needs.on_round = [&](const RoundRecord& record) -> Status {
    GLEANER_TRY(output->append(record));
    if (!options.quiet) progress->show(record);
    return {};
  };
  if (!options.resume) {
    // Before the first checkpoint, so that what can be gone on with has its files.
    GLEANER_TRY(Federation::check_new(needs.folder));
    GLEANER_ASSIGN(output, RoundOutput::create(folder, stage->label()));
  }
  GLEANER_ASSIGN(const auto federation, options.resume ? Federation::resume(needs) : Federation::create(needs));
  const std::uint32_t done = federation->rounds_done();
  if (options.resume) {
    GLEANER_ASSIGN(output, RoundOutput::resume(folder, stage->label(), done));
  }
  progress.emplace(console, stage->experiment().run.rounds);
  for (const RoundRecord& record : output->rounds()) progress->count(record);
  if (options.resume && !options.quiet) console.out << fmt::format("goes on after round {}\n", done) << std::flush;

  GLEANER_ASSIGN(const auto end, federation->run(interrupted));
  if (!options.quiet) progress->end();
  console.out << final_table(stage->label(), output->rounds());
  if (end == Federation::End::stopped) {
    console.out << how_it_goes_on(*federation, options.resume || needs.checkpoint_every != 0);
  }
  if (end == Federation::End::time_limit) console.out << "The limit of virtual time is reached.\n";
  console.out << where_it_lies(folder, federation->status().row.model_hash);
  if (!options.json_file.empty())
    GLEANER_TRY(write_json(options.json_file, summary_json(*stage, *federation, output->rounds())));
  return end == Federation::End::stopped ? kFailure : kOk;
}

Result<int> run_trials(Console& console, const SimulateOptions& options) {
  GLEANER_ASSIGN(auto experiment, experiment_of(options));
  GLEANER_ASSIGN(const Faults faults, faults_of_level(options.faults.empty() ? "heavy" : options.faults));
  GLEANER_ASSIGN(auto stage, Stage::set(std::move(experiment)));
  const std::uint64_t count = options.seeds == 0 ? 1 : options.seeds;
  Trials trials(*stage, faults);
  GLEANER_TRY(trials.run_calm());
  for (std::uint64_t i = 0; i < count && !interrupted; ++i) {
    const std::uint64_t seed = std::max<std::uint64_t>(options.first_seed, 1) + i;
    if (const Status sound = trials.run(seed); !sound) {
      return fail(ErrorCode::fatal,
                  fmt::format("seed {}: {}; `gleaner simulate {} --faults {} --first-seed {} --seeds 1` "
                              "does the same again",
                              seed, sound.error().message(), options.files.front(),
                              options.faults.empty() ? "heavy" : options.faults, seed));
    }
    if (console.err_is_terminal) console.err << fmt::format("\r\x1b[K{} of {} seeds", i + 1, count) << std::flush;
  }
  if (console.err_is_terminal) console.err << "\n";
  console.out << trials.report();
  return interrupted ? kFailure : kOk;
}

Result<int> plot_recordings(Console& console, const SimulateOptions& options) {
  std::vector<Recording> recordings;
  for (const std::string& file : options.files) {
    const std::string path = fs::is_directory(file) ? file + "/rounds.jsonl" : file;
    GLEANER_ASSIGN(auto recording, read_recording(path));
    recordings.push_back(std::move(recording));
  }
  GLEANER_ASSIGN(const auto paths, plot(recordings, options.output.empty() ? absolute(".") : absolute(options.output)));
  for (const std::string& path : paths) console.out << path << "\n";
  return kOk;
}

Result<int> simulate(Console& console, const SimulateOptions& options) {
  start_logging({.level = LogLevel::error});
  if (options.plot) return plot_recordings(console, options);
  return options.seeds > 0 ? run_trials(console, options) : run_experiment(console, options);
}

}  // namespace

void add_simulate_command(CLI::App& root, Invocation& invocation) {
  auto* command = root.add_subcommand("simulate", "An experiment with virtual devices, network and time");
  auto options = std::make_shared<SimulateOptions>();
  constexpr std::uint64_t kSeedMost = std::numeric_limits<std::int64_t>::max();  // as in a file
  command->add_option("FILE", options->files, "The experiment; with --plot, output folders or rounds.jsonl files")
      ->required();
  command->add_option("--output", options->output, "Folder for results and state; made when missing");
  auto* output = command->get_option("--output");
  auto* resume = command->add_flag("--resume", options->resume, "Go on from the last checkpoint in the output folder");
  auto* checkpoints = command->add_option(
      "--checkpoint-every", options->checkpoint_every,
      "Rounds between checkpoints, 0 for none, instead of the file's; a resumed experiment keeps its own");
  auto* rounds =
      command->add_option("--rounds", options->rounds, "Instead of the file's")->check(CLI::Range(1, 1'000'000));
  auto* seed = command->add_option("--seed", options->seed, "Instead of the file's")
                   ->check(CLI::Range(std::uint64_t{0}, kSeedMost));
  auto* threads = command->add_option("--threads", options->threads, "Instead of the file's; changes no result");
  auto* json = command->add_option("--json", options->json_file, "Write the closing figures to this file");
  auto* faults = command->add_option("--faults", options->faults,
                                     "none, light or heavy, instead of the file's; heavy when only --seeds is given");
  auto* seeds =
      command->add_option("--seeds", options->seeds, "Run the experiment so many times under faults and check each run")
          ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1'000'000'000}));
  auto* first_seed =
      command->add_option("--first-seed", options->first_seed, "Of the faults; 1 with --seeds, else the file's")
          ->check(CLI::Range(std::uint64_t{1}, kSeedMost));
  auto* plot = command->add_flag("--plot", options->plot, "Draw the curves of finished experiments as SVG");
  // What an option would not change is not taken.
  for (auto* other : {output, resume, checkpoints, json}) seeds->excludes(other);
  for (auto* other : {resume, checkpoints, rounds, seed, threads, json, faults, seeds, first_seed})
    plot->excludes(other);
  command->add_flag("--quiet", options->quiet, "Only the closing table");
  command->callback([&invocation, options] {
    invocation.action = [options, &invocation](Console& console) {
      std::signal(SIGINT, on_interrupt);
      std::signal(SIGTERM, on_interrupt);
      const auto done = simulate(console, *options);
      return done ? *done : report(console, invocation.common, done.error());
    };
  });
}

}  // namespace gleaner::cli
