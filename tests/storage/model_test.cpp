// Random sequences of operations against a model in memory.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>

#include "tests/storage/support.hpp"

namespace gleaner::test {
namespace {

struct ModelRecord {
  std::uint32_t round = 0;
  std::size_t aggregate_bytes = 0;
  bool has_aggregate = true;
  bool has_patch = true;
};

struct Model {
  std::map<std::uint32_t, ModelRecord> records;    // by version
  std::map<std::uint32_t, std::size_t> snapshots;  // complete ones: bytes by version
  std::map<std::uint64_t, std::string> open;       // plan -> device
  std::map<std::uint64_t, AnswerRow> answers;      // by plan
  std::optional<std::uint32_t> writing;            // snapshot being written
  std::size_t written = 0;
  std::uint32_t rounds = 0;
  std::uint64_t next_plan = 1;

  std::uint32_t version() const { return records.empty() ? 0 : records.rbegin()->first; }
};

constexpr std::size_t kPieces = 3;
constexpr std::size_t kPieceBytes = 70'000;

class Machine {
 public:
  Machine() {
    open();
    RC_ASSERT(database_->create_run(run_row()).has_value());
  }

  void apply(std::uint32_t operation, std::uint32_t argument) {
    switch (operation % 9) {
      case 0:
      case 1: commit(argument); break;
      case 2: commit_without_version(argument); break;
      case 3: issue_plans(argument); break;
      case 4: begin_snapshot(argument); break;
      case 5: append_snapshot(); break;
      case 6: finish_snapshot(argument); break;
      case 7: RC_ASSERT(database_->checkpoint().has_value()); break;
      default:
        database_.reset();
        model_.writing.reset();
        open();
    }
  }

  void compare() {
    const RunRow row = *database_->run(kRun);
    RC_ASSERT(row.version.value == model_.version());
    RC_ASSERT(row.rounds_done == model_.rounds);
    RC_ASSERT(row.next_plan.value == model_.next_plan);
    compare_plans();
    compare_patches();
    compare_log();
    RC_ASSERT(compare_with_functions(*database_, kRun, model_.version()) == "");
    const Status checked = database_->check();
    RC_LOG() << (checked ? "" : checked.error().message());
    RC_ASSERT(checked.has_value());
  }

 private:
  void open() {
    auto opened = Database::open(folder_ / "a.db", Database::Access::serve);
    RC_ASSERT(opened.has_value());
    database_ = std::move(*opened);
  }

  std::vector<AnswerRow> some_answers(std::uint32_t argument) {
    std::vector<AnswerRow> answers;
    for (const auto& [plan, device] : model_.open) {
      if ((plan + argument) % 3 == 0) continue;
      answers.push_back(answer_row(plan, device, (plan + argument) % 2 == 0 ? Outcome::included : Outcome::late));
    }
    return answers;
  }
  void take_answers(const std::vector<AnswerRow>& answers) {
    for (const AnswerRow& answer : answers) {
      model_.open.erase(answer.plan.value);
      model_.answers[answer.plan.value] = answer;
    }
  }

  void commit(std::uint32_t argument) {
    CommitRecord record = record_of(model_.version() + 1, argument % 5 * 30'000);
    record.round = ++model_.rounds;
    record.answers = some_answers(argument);
    RC_ASSERT(database_->commit(kRun, record).has_value());
    if (argument % 4 == 0) RC_ASSERT(database_->commit(kRun, record).has_value());
    CommitRecord wrong = record;
    wrong.version.value += 2;
    wrong.round += 1;
    RC_ASSERT(database_->commit(kRun, wrong).error().code() == ErrorCode::conflict);
    model_.records[record.version.value] = {.round = record.round, .aggregate_bytes = record.aggregate.size()};
    take_answers(record.answers);
  }
  void commit_without_version(std::uint32_t argument) {
    const CommitRecord record{.round = ++model_.rounds, .answers = some_answers(argument)};
    RC_ASSERT(database_->commit(kRun, record).has_value());
    if (argument % 4 == 0) RC_ASSERT(database_->commit(kRun, record).has_value());
    take_answers(record.answers);
  }
  void issue_plans(std::uint32_t argument) {
    std::vector<PlanRow> plans;
    for (std::uint32_t i = 0; i < argument % 4; ++i) {
      plans.push_back(plan_row(model_.next_plan++, fmt::format("d{}", (argument + i) % 5)));
      model_.open[plans.back().id.value] = plans.back().device.value;
    }
    RC_ASSERT(database_->issue_plans(kRun, plans).has_value());
  }

  void begin_snapshot(std::uint32_t argument) {
    const std::uint32_t version = model_.version() - std::min(model_.version(), argument % 3);
    const Status status = database_->begin_snapshot(kRun, {version}, kPieces * kPieceBytes);
    RC_ASSERT(status.has_value() == !model_.snapshots.contains(version));
    if (!status) return;
    model_.writing = version;
    model_.written = 0;
  }
  void append_snapshot() {
    if (!model_.writing) return;
    const Bytes bytes = snapshot_of(*model_.writing, kPieces * kPieceBytes);
    const ByteView piece = ByteView(bytes).subspan(std::min(model_.written, kPieces - 1) * kPieceBytes, kPieceBytes);
    const Status status = database_->append_snapshot(kRun, {*model_.writing}, piece);
    RC_ASSERT(status.has_value() == model_.written < kPieces);
    if (status) ++model_.written;
  }
  void finish_snapshot(std::uint32_t argument) {
    if (!model_.writing) return;
    const std::uint32_t patches_kept = argument % 6;
    const Status status = database_->finish_snapshot(kRun, {*model_.writing}, patches_kept);
    RC_ASSERT(status.has_value() == (model_.written == kPieces));
    if (!status) return;
    model_.snapshots[*model_.writing] = kPieces * kPieceBytes;
    model_.writing.reset();
    while (model_.snapshots.size() > 2) model_.snapshots.erase(model_.snapshots.begin());
    const std::uint32_t start = model_.snapshots.size() == 2 ? model_.snapshots.begin()->first : 0;
    for (auto& [version, record] : model_.records) {
      if (version > start) continue;
      record.has_aggregate = false;
      if (version + patches_kept <= model_.version()) record.has_patch = false;
    }
  }

  void compare_plans() {
    const std::vector<PlanRow> open = *database_->open_plans(kRun);
    RC_ASSERT(open.size() == model_.open.size());
    for (const PlanRow& plan : open) RC_ASSERT(model_.open.at(plan.id.value) == plan.device.value);
    std::map<std::string, std::uint64_t> last;
    for (const auto& [plan, answer] : model_.answers) {
      const auto stored = *database_->outcome_of(kRun, {plan});
      RC_ASSERT(stored && stored->outcome == answer.outcome && stored->digest == answer.digest);
      last[answer.device.value] = plan;
    }
    const std::vector<AnswerRow> newest = *database_->last_answers(kRun);
    RC_ASSERT(newest.size() == last.size());
    for (const AnswerRow& answer : newest) RC_ASSERT(last.at(answer.device.value) == answer.plan.value);
  }
  void compare_patches() {
    std::vector<std::uint32_t> expected;
    for (const auto& [version, record] : model_.records) {
      if (record.has_patch) expected.push_back(version);
    }
    std::vector<std::uint32_t> found;
    for (const PatchRow& row : *database_->patches(kRun, {0}, {model_.version()})) {
      found.push_back(row.version.value);
      RC_ASSERT(row.patch == record_of(row.version.value).patch);
    }
    RC_ASSERT(found == expected);
  }
  void compare_log() {
    const std::uint32_t newest_snapshot = model_.snapshots.empty() ? 0 : model_.snapshots.rbegin()->first;
    std::uint64_t bytes = 0;
    for (const auto& [version, record] : model_.records) {
      if (version > newest_snapshot) bytes += record.aggregate_bytes + record_of(version).patch.size();
      const Status replayed = database_->replay(kRun, {version - 1}, [](const CommitRecord&) -> Status { return {}; });
      RC_ASSERT(replayed.has_value() == record.has_aggregate);
    }
    RC_ASSERT(*database_->log_bytes_since_snapshot(kRun) == bytes);
    const auto snapshot = *database_->newest_snapshot(kRun);
    RC_ASSERT(snapshot.has_value() == !model_.snapshots.empty());
    if (snapshot) RC_ASSERT(snapshot->version.value == newest_snapshot);
  }

  Folder folder_{Folder::Place::memory};
  std::unique_ptr<Database> database_;
  Model model_;
};

RC_GTEST_PROP(Model, any_sequence_of_operations_is_stored_as_the_model_says, ()) {
  const auto operations = *rc::gen::container<std::vector<std::pair<std::uint32_t, std::uint32_t>>>(
      rc::gen::pair(rc::gen::inRange<std::uint32_t>(0, 9), rc::gen::inRange<std::uint32_t>(0, 60)));
  Machine machine;
  for (const auto& [operation, argument] : operations) machine.apply(operation, argument);
  machine.compare();
}

}  // namespace
}  // namespace gleaner::test
