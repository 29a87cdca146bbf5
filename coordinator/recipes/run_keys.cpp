#include "coordinator/recipes/run_keys.hpp"

#include "aggregation/server_optimizer.hpp"
#include "compression/compressor.hpp"
#include "compression/upload_rule.hpp"
#include "config/paths.hpp"
#include "coordinator/recipes/recipes.hpp"
#include "scheduling/planner.hpp"
#include "training/model.hpp"

namespace gleaner {
namespace {

using config::Excluded;
using config::Need;
using config::Section;

constexpr std::uint32_t kDevicesMax = 1'000'000;
constexpr const char* kOfRecipe = "by recipe";

Section run_section(RunFile& file) {
  RunSpec& spec = file.settings.spec;
  return {"run",
          "What the run is called and how long it is.",
          {{.name = "name",
            .kind = config::name(spec.name),
            .description = "For people; unique on a coordinator.",
            .need = Need::required},
           {.name = "rounds",
            .kind = config::integer(file.settings.rounds, {1, 1'000'000'000}),
            .description = "Versions of the model to make; then the run is finished.",
            .aliases = {"num_rounds"}},
           {.name = "recipe",
            .kind = config::one_of(spec.recipe, recipe_names()),
            .description = "The combination of methods that gives the defaults marked so below."},
           {.name = "seed",
            .kind = config::integer(spec.seed),
            .description = "Of the first model, the cohorts and the devices' shuffles."},
           {.name = "reproducible",
            .kind = config::flag(spec.reproducible),
            .description = "A fixed cohort that everybody answers in, with fixed sizes: the run ends with the same "
                           "model however often it is interrupted."}}};
}

Section model_section(RunFile& file) {
  RunSpec& spec = file.settings.spec;
  std::vector<std::string> models;
  for (const ModelSummary& model : known_models()) models.emplace_back(model.name);
  return {"model",
          "The model that is trained.",
          {{.name = "name",
            .kind = config::one_of(spec.model, models),
            .description = "The row of the table of models.",
            .need = Need::required},
           {.name = "hidden_units",
            .kind = config::integer(spec.hidden_units, {1, 1U << 20}),
            .description = "Units of the hidden dense layer, for models that have one.",
            .default_note = "by model"}}};
}

Section data_section(RunFile& file) {
  DatasetShape& shape = file.settings.shape;
  const char* note = "by data";
  return {
      "data",
      "The data by the name that devices bind to files, and the shape of its samples. The shape of `mnist` and "
      "`fashion-mnist` is known.",
      {{.name = "name",
        .kind = config::name(file.settings.spec.data),
        .description = "The name in the devices' files.",
        .need = Need::required},
       {.name = "evaluation",
        .kind = config::readable_directory(file.settings.evaluation_data),
        .description =
            "A directory on the coordinator with the held-out test set, in a form that devices read too; without it no "
            "accuracy is measured."},
       {.name = "height",
        .kind = config::integer(shape.height, {1, 1U << 24}),
        .description = "Rows of pixels.",
        .default_note = note},
       {.name = "width",
        .kind = config::integer(shape.width, {1, 1U << 24}),
        .description = "Columns of pixels.",
        .default_note = note},
       {.name = "channels",
        .kind = config::integer(shape.channels, {1, 1U << 24}),
        .description = "Values of a pixel.",
        .default_note = note},
       {.name = "classes",
        .kind = config::integer(shape.classes, {2, 256}),
        .description = "Labels.",
        .default_note = note}}};
}

Section training_section(RunFile& file) {
  RunSpec& spec = file.settings.spec;
  return {"training",
          "The work of a device in a round.",
          {{.name = "local_epochs",
            .kind = config::integer(spec.local_epochs, {1, 1000}),
            .description = "Passes over the device's samples.",
            .aliases = {"epochs"}},
           {.name = "batch_size",
            .kind = config::integer(spec.batch_size, {1, 1U << 20}),
            .description = "Samples of a step."},
           {.name = "learning_rate",
            .kind = config::number(spec.learning_rate, {.least = 0, .most = 1000, .excluded = Excluded::least}),
            .description = "Of a device's steps."},
           {.name = "momentum",
            .kind = config::number(spec.momentum, {.least = 0, .most = 1, .excluded = Excluded::most}),
            .description = "Of a device's steps, within a round."},
           {.name = "weight_decay",
            .kind = config::number(spec.weight_decay, {.least = 0, .most = 1000}),
            .description = "Added to the gradient as this multiple of the weights."}}};
}

std::vector<std::string> value_format_keys() {
  std::vector<std::string> keys;
  for (const ValueFormat format : kValueFormats) keys.emplace_back(to_string(format));
  return keys;
}

Section compression_section(RunFile& file) {
  RunSettings& s = file.settings;
  return {"compression",
          "What of an update and of a new version is sent, and in which form.",
          {{.name = "compressor",
            .kind = config::one_of(s.spec.compressor, compressor_names()),
            .description = "`dense` sends all entries, `topk` the largest and keeps the rest for later.",
            .default_note = kOfRecipe},
           {.name = "density",
            .kind = config::number(s.planning.density_up, {.least = 0, .most = 1, .excluded = Excluded::least}),
            .description = "The share of the entries that a device may send; budgets and deadline may lower it.",
            .default_note = kOfRecipe},
           {.name = "density_down",
            .kind = config::number(s.density_down, {.least = 0, .most = 1, .excluded = Excluded::least}),
            .description = "The share of the entries that change from one version to the next.",
            .default_note = kOfRecipe},
           {.name = "value_format",
            .kind = config::one_of(s.spec.value_format_up, value_format_keys()),
            .description = "Of a device's update; `sign` only with `topk`.",
            .default_note = kOfRecipe},
           {.name = "value_format_down",
            .kind = config::choice(s.step.patch_values, value_format_names()),
            .description = "Of the change between two versions.",
            .default_note = kOfRecipe},
           {.name = "per_tensor",
            .kind = config::flag(s.spec.per_tensor),
            .description = "Share the entries out to the tensors in proportion to their sizes."},
           {.name = "clip_exponent",
            .kind = config::integer(s.spec.clip_exponent, {-20, 20}),
            .description = "Values are clipped to two to this power; what is beyond stays on the device."}}};
}

Section upload_section(RunFile& file) {
  RunSpec& spec = file.settings.spec;
  return {"upload",
          "Whether a device sends at all in a round.",
          {{.name = "rule",
            .kind = config::one_of(spec.upload_rule, upload_rule_names()),
            .description = "`always` sends; the others stay silent when there is little to say.",
            .default_note = kOfRecipe},
           {.name = "skip_share",
            .kind = config::number(spec.skip_share, {.least = 0, .most = 1, .excluded = Excluded::most}),
            .description = "Rule residual: the share of the devices that is meant to stay silent.",
            .default_note = kOfRecipe},
           {.name = "age_max",
            .kind = config::integer(spec.age_max, {1, 1'000'000}),
            .description = "Lazy rules: rounds of silence after which a device sends in any case."},
           {.name = "c0",
            .kind = config::number(spec.c0, {.least = 0, .most = 1e9}),
            .description = "Rule lasg-wk2: factor on the threshold."},
           {.name = "history",
            .kind = config::integer(spec.rule_history, {1, 64}),
            .description = "Rule lasg-wk2: steps of the model that the threshold is the mean of."},
           {.name = "zeta",
            .kind = config::number(spec.zeta, {.least = 0, .most = 1e9}),
            .description = "Rule clag: factor on the change since the previous update."}}};
}

Section cohort_section(RunFile& file) {
  RunSettings& s = file.settings;
  PlannerSettings& p = s.planning;
  return {"cohort",
          "Who takes part in a round, and when it is over.",
          {{.name = "planner",
            .kind = config::one_of(s.planner, planner_names()),
            .description = "`joint` fits every device's share to its measured link, `uniform` treats all alike."},
           {.name = "size",
            .kind = config::integer(p.cohort_size, {0, kDevicesMax}),
            .description = "Devices of a round; 0 is all that are connected."},
           {.name = "fraction_fit",
            .kind = config::number(file.fraction_fit, {.least = 0, .most = 1, .excluded = Excluded::least}),
            .description = "Only 1 is accepted, and means all: give any other cohort as a number of devices (size), "
                           "because a run's divisor is fixed and a share of those who happen to be there is not."},
           {.name = "min_devices",
            .kind = config::integer(p.min_devices, {1, kDevicesMax}),
            .description = "With fewer connected no round starts.",
            .aliases = {"min_fit_clients", "min_available_clients"}},
           {.name = "over_selection",
            .kind = config::number(p.over_selection, {.least = 1, .most = 10}),
            .description = "This many times the cohort is asked, and whoever is late returns what it has later."},
           {.name = "quorum",
            .kind = config::number(p.quorum, {.least = 0, .most = 1, .excluded = Excluded::least}),
            .description = "The share of the cohort whose answers end a round; 1 with reproducible."},
           {.name = "deadline",
            .kind = config::duration(p.deadline, {Duration(0), std::chrono::hours(24 * 30)}),
            .description = "When a round ends at the latest; 0s waits for the quorum, and is the default with "
                           "reproducible."},
           {.name = "staleness_max",
            .kind = config::integer(s.staleness_max, {0, 1000}),
            .description = "A late update whose base is at most so many versions old enters the open round."},
           {.name = "uplink_bytes_per_round",
            .kind = config::byte_size(p.uplink_bytes_per_round),
            .description = "Budget for the uploads of a round over all devices; 0 is none."}}};
}

Section server_section(RunFile& file) {
  RunSettings& s = file.settings;
  return {
      "server",
      "How a round's mean becomes the next version.",
      {{.name = "optimizer",
        .kind = config::one_of(s.step.optimizer, server_optimizer_names()),
        .description = "Runs before the entries that change are picked."},
       {.name = "learning_rate",
        .kind = config::number(s.step.server_learning_rate, {.least = 0, .most = 1000, .excluded = Excluded::least}),
        .description = "The factor on the mean update."},
       {.name = "momentum",
        .kind = config::number(s.step.server_momentum, {.least = 0, .most = 1, .excluded = Excluded::most}),
        .description = "Of optimizer momentum."},
       {.name = "keep_residual",
        .kind = config::flag(s.step.keep_residual),
        .description = "Keep what was not sent down for the next versions.",
        .default_note = kOfRecipe},
       {.name = "divisor",
        .kind = config::choice<bool>(s.fixed_divisor, {{"fixed", true}, {"arrived", false}}),
        .description = "`fixed` divides by the weight that a round is expected to have, `arrived` by that which "
                       "came.",
        .default_note = kOfRecipe},
       {.name = "patches_kept",
        .kind = config::integer(s.patches_kept, {1, 1'000'000}),
        .description = "Versions that a device may be behind and still be brought up by patches."}}};
}

}  // namespace

std::vector<std::pair<std::string, ValueFormat>> value_format_names() {
  std::vector<std::pair<std::string, ValueFormat>> names;
  for (const ValueFormat format : kValueFormats) names.emplace_back(to_string(format), format);
  return names;
}

config::Schema run_schema(RunFile& file) {
  return {{run_section(file),
           model_section(file),
           data_section(file),
           training_section(file),
           compression_section(file),
           upload_section(file),
           cohort_section(file),
           server_section(file),
           {"evaluation",
            "When the model is tried on the test set.",
            {{.name = "every",
              .kind = config::integer(file.settings.evaluate_every, {1, 1'000'000}),
              .description = "Versions from one evaluation to the next."}}}}};
}

}  // namespace gleaner
