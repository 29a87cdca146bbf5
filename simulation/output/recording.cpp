#include <fmt/format.h>

#include <boost/json/object.hpp>
#include <boost/json/stream_parser.hpp>
#include <boost/json/value.hpp>
#include <filesystem>
#include <fstream>
#include <limits>

#include "simulation/output/recording_lines.hpp"

namespace gleaner::simulation {
namespace {

namespace json = boost::json;

// Takes the fields of one line; remembers the first that is missing or of another kind.
class Fields {
 public:
  explicit Fields(const json::object& object) : object_(object) {}

  const std::string& wrong() const { return wrong_; }

  std::string text(std::string_view name) {
    const json::value* value = find(name);
    if (value != nullptr && value->is_string()) return std::string(value->get_string());
    return complain<std::string>(name);
  }

  template <class T>
  T integer(std::string_view name) {
    const json::value* value = find(name);
    std::uint64_t found = 0;
    if (value != nullptr && value->is_uint64()) {
      found = value->get_uint64();
    } else if (value != nullptr && value->is_int64() && value->get_int64() >= 0) {
      found = static_cast<std::uint64_t>(value->get_int64());
    } else {
      return complain<T>(name);
    }
    return found <= std::numeric_limits<T>::max() ? static_cast<T>(found) : complain<T>(name);
  }

  std::optional<double> number_or_null(std::string_view name) {
    const json::value* value = find(name);
    if (value != nullptr && value->is_null()) return std::nullopt;
    if (value != nullptr && value->is_number()) return value->to_number<double>();
    return complain<double>(name);
  }

  double number(std::string_view name) {
    const auto found = number_or_null(name);
    return found ? *found : complain<double>(name);
  }

 private:
  const json::value* find(std::string_view name) const { return object_.if_contains(name); }

  template <class T>
  T complain(std::string_view name) {
    if (wrong_.empty()) wrong_ = name;
    return {};
  }

  const json::object& object_;
  std::string wrong_;
};

RoundRecord record_of(Fields& f) {
  return {.round = f.integer<std::uint32_t>("round"),
          .version = f.integer<std::uint32_t>("version"),
          .virtual_s = f.number("virtual_s"),
          .real_s = f.number("real_s"),
          .accuracy = f.number_or_null("accuracy"),
          .loss = f.number_or_null("loss"),
          .payload_bytes_up = f.integer<std::uint64_t>("payload_bytes_up"),
          .payload_bytes_down = f.integer<std::uint64_t>("payload_bytes_down"),
          .frame_bytes_up = f.integer<std::uint64_t>("frame_bytes_up"),
          .frame_bytes_down = f.integer<std::uint64_t>("frame_bytes_down"),
          .socket_bytes_up = f.integer<std::uint64_t>("socket_bytes_up"),
          .socket_bytes_down = f.integer<std::uint64_t>("socket_bytes_down"),
          .uploads = f.integer<std::uint32_t>("uploads"),
          .skips = f.integer<std::uint32_t>("skips"),
          .late = f.integer<std::uint32_t>("late"),
          .lapsed = f.integer<std::uint32_t>("lapsed"),
          .reachable = f.integer<std::uint32_t>("reachable")};
}

struct Place {
  const std::string& path;
  std::size_t line;

  std::unexpected<Error> mistake(std::size_t column, std::string_view what) const {
    return fail(ErrorCode::bad_input, fmt::format("{}:{}:{}: {}", path, line, column, what));
  }
};

Result<json::value> parse_line(const std::string& text, const Place& place) {
  json::stream_parser parser;
  boost::system::error_code code;
  const std::size_t read = parser.write_some(text.data(), text.size(), code);
  if (!code && read == text.size()) parser.finish(code);
  if (code) return place.mistake(read + 1, "is no JSON: " + code.message());
  if (read != text.size()) return place.mistake(read + 1, "something follows the object");
  return parser.release();
}

Result<RoundRecord> record_in(const std::string& text, const Place& place, OutputLabel& label) {
  GLEANER_ASSIGN(const json::value value, parse_line(text, place));
  if (!value.is_object()) return place.mistake(1, "is no JSON object, expected the record of a round");
  Fields fields(value.get_object());
  label = {.experiment = fields.text("experiment"), .data = fields.text("data")};
  const RoundRecord record = record_of(fields);
  if (!fields.wrong().empty()) {
    const auto at = text.find(fmt::format("\"{}\"", fields.wrong()));
    return place.mistake(at == std::string::npos ? 1 : at + 1,
                         fmt::format("\"{}\" is missing or of a wrong kind", fields.wrong()));
  }
  return record;
}

}  // namespace

Result<RecordingLines> read_recording_lines(const std::string& path) {
  constexpr std::uintmax_t kMostBytes = 1U << 30;
  std::error_code code;
  const std::uintmax_t size = std::filesystem::is_regular_file(path, code) ? std::filesystem::file_size(path, code) : 0;
  std::ifstream in(path, std::ios::binary);
  if (code || !in) {
    return fail(ErrorCode::bad_input,
                fmt::format("{}: {}", path, code ? code.message() : "no such file, or it cannot be read"));
  }
  if (size > kMostBytes) return fail(ErrorCode::bad_input, fmt::format("{}: has more than a gigabyte", path));
  RecordingLines lines;
  std::uint64_t offset = 0;
  for (std::string text; std::getline(in, text) && !in.eof();) {  // a last line without its end is left out
    const Place place{path, lines.recording.rounds.size() + 1};
    OutputLabel label;
    GLEANER_ASSIGN(const RoundRecord record, record_in(text, place, label));
    auto& rounds = lines.recording.rounds;
    if (rounds.empty()) lines.recording.label = label;
    if (label != lines.recording.label) return place.mistake(1, "is of another experiment or of other data");
    if (!rounds.empty() && record.round <= rounds.back().round) {
      return place.mistake(1, fmt::format("round {} comes after round {}", record.round, rounds.back().round));
    }
    rounds.push_back(record);
    offset += text.size() + 1;
    lines.ends.push_back(offset);
  }
  return lines;
}

Result<Recording> read_recording(const std::string& path) {
  GLEANER_ASSIGN(RecordingLines lines, read_recording_lines(path));
  return std::move(lines.recording);
}

}  // namespace gleaner::simulation
