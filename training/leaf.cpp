#include "training/leaf.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/basic_parser_impl.hpp>
#include <limits>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "training/content_reader.hpp"

namespace gleaner {
namespace {

namespace json = boost::json;
using Code = json::error_code;

constexpr std::uint32_t kSide = 28;
constexpr std::size_t kPixels = std::size_t{kSide} * kSide;
constexpr std::uint32_t kClasses = 62;
constexpr std::size_t kMaxNameBytes = 256;
constexpr std::size_t kMaxSamples = 10'000'000;  // twelve times all of FEMNIST
constexpr std::size_t kMaxUsers = 1'000'000;

struct Sink {
  Dataset& dataset;
  std::unordered_map<std::string, std::uint32_t> users;  // name -> index, over all files of the split
};

// Called by the parser piece by piece. A mistake is kept as text and ends the parsing.
class Handler {
 public:
  static constexpr std::size_t max_object_size = std::numeric_limits<std::size_t>::max();
  static constexpr std::size_t max_array_size = std::numeric_limits<std::size_t>::max();
  static constexpr std::size_t max_key_size = kMaxNameBytes;
  static constexpr std::size_t max_string_size = kMaxNameBytes;

  explicit Handler(Sink& sink) : sink_(sink) {}
  const std::string& mistake() const { return mistake_; }

  bool on_document_begin(Code&) { return true; }
  bool on_document_end(Code& code) { return check_lists(code); }

  bool on_object_begin(Code& code) {
    switch (at_) {
      case At::start: return enter(At::top);
      case At::top_value: return key_ == "user_data" ? enter(At::users_data) : skip_or_refuse("an object", code);
      case At::user_value: return begin_user(code);
      case At::skipped: return ++skipped_depth_ > 0;
      default: return unexpected("an object", code);
    }
  }
  bool on_object_end(std::size_t, Code& code) {
    switch (at_) {
      case At::top: return enter(At::end);
      case At::users_data: return enter(At::top);
      case At::user: return end_user(code);
      default: return leave_skipped();
    }
  }
  bool on_array_begin(Code& code) {
    switch (at_) {
      case At::top_value:
        if (key_ == "users") return enter(At::names);
        if (key_ == "num_samples") return enter(At::counts);
        return skip_or_refuse("an array", code);
      case At::field_value: return enter(key_ == "x" ? At::images : At::labels);
      case At::images:
        if (sink_.dataset.pixels.size() >= kMaxSamples * kPixels)
          return refuse(fmt::format("expected at most {} samples", kMaxSamples), code);
        pixels_ = 0;
        return enter(At::image);
      case At::skipped: return ++skipped_depth_ > 0;
      default: return unexpected("an array", code);
    }
  }
  bool on_array_end(std::size_t, Code& code) {
    switch (at_) {
      case At::names:
      case At::counts: return enter(At::top);
      case At::images:
      case At::labels: return enter(At::user);
      case At::image:
        if (pixels_ != kPixels)
          return wrong_sample(images_, fmt::format("{} pixels, found {}", kPixels, pixels_), code);
        ++images_;
        return enter(At::images);
      default: return leave_skipped();
    }
  }

  bool on_key_part(json::string_view part, std::size_t, Code&) { return append(part); }
  bool on_key(json::string_view part, std::size_t, Code& code) {
    append(part);
    key_ = std::exchange(text_, {});
    switch (at_) {
      case At::top: return begin_section(code);
      case At::users_data: user_ = key_; return enter(At::user_value);
      case At::user:
        if (key_ != "x" && key_ != "y") {
          return refuse(fmt::format("user {}: expected x and y, found \"{}\"", user_, key_), code);
        }
        return enter(At::field_value);
      default: return true;  // skipped
    }
  }
  bool on_string_part(json::string_view part, std::size_t, Code&) { return append(part); }
  bool on_string(json::string_view part, std::size_t, Code& code) {
    append(part);
    std::string text = std::exchange(text_, {});
    if (at_ == At::skipped) return true;
    if (at_ == At::top_value) return skip_or_refuse("text", code) && leave_skipped_value();
    if (at_ != At::names) return unexpected("text", code);
    if (names_.size() == kMaxUsers) return refuse(fmt::format("expected at most {} users", kMaxUsers), code);
    names_.push_back(std::move(text));
    return true;
  }

  bool on_number_part(json::string_view, Code&) { return true; }
  bool on_int64(std::int64_t value, json::string_view, Code& code) {
    return value < 0 ? number(static_cast<double>(value), code) : whole(static_cast<std::uint64_t>(value), code);
  }
  bool on_uint64(std::uint64_t value, json::string_view, Code& code) { return whole(value, code); }
  bool on_double(double value, json::string_view, Code& code) { return number(value, code); }
  bool on_bool(bool, Code& code) { return scalar("true or false", code); }
  bool on_null(Code& code) { return scalar("null", code); }
  bool on_comment_part(json::string_view, Code&) { return true; }
  bool on_comment(json::string_view, Code&) { return true; }

 private:
  enum class At {
    start,
    top,
    top_value,
    names,
    counts,
    users_data,
    user_value,
    user,
    field_value,
    images,
    image,
    labels,
    skipped,
    end
  };

  bool enter(At at) {
    at_ = at;
    return true;
  }
  bool append(json::string_view part) {
    text_.append(part.data(), part.size());
    return true;
  }
  bool refuse(std::string mistake, Code& code) {
    mistake_ = std::move(mistake);
    code = json::error::syntax;
    return false;
  }
  bool unexpected(const char* found, Code& code) {
    const char* expected = "an object with users, num_samples and user_data";
    switch (at_) {
      case At::names: expected = "users to be a list of names"; break;
      case At::counts: expected = "num_samples to be a list of whole numbers"; break;
      case At::user_value: expected = "an object with x and y"; break;
      case At::field_value: expected = "a list"; break;
      case At::images: return wrong_sample(images_, fmt::format("a list of pixels, found {}", found), code);
      case At::image: return wrong_sample(images_, fmt::format("numbers from 0 to 1, found {}", found), code);
      case At::labels: return wrong_sample(labels_, fmt::format("a label below {}, found {}", kClasses, found), code);
      default: break;
    }
    const std::string where = at_ == At::user_value || at_ == At::field_value ? fmt::format("user {}: ", user_) : "";
    return refuse(fmt::format("{}expected {}, found {}", where, expected, found), code);
  }
  bool wrong_sample(std::size_t sample, const std::string& what, Code& code) {
    return refuse(fmt::format("user {}, sample {}: expected {}", user_, sample, what), code);
  }

  // Of the top level: the three known keys once each, others are no matter to us.
  bool begin_section(Code& code) {
    enter(At::top_value);
    const bool known = key_ == "users" || key_ == "num_samples" || key_ == "user_data";
    if (!known) return true;
    if (std::ranges::find(sections_, key_) != sections_.end()) {
      return refuse(fmt::format("expected {} once, found it twice", key_), code);
    }
    sections_.push_back(key_);
    return true;
  }
  bool skip_or_refuse(const char* found, Code& code) {
    if (std::ranges::find(sections_, key_) != sections_.end()) {
      return refuse(
          fmt::format("expected {} to be {}, found {}", key_, key_ == "user_data" ? "an object" : "an array", found),
          code);
    }
    skipped_depth_ = 1;
    return enter(At::skipped);
  }
  bool leave_skipped() {
    if (--skipped_depth_ == 0) enter(At::top);
    return true;
  }
  bool leave_skipped_value() { return leave_skipped(); }
  bool scalar(const char* found, Code& code) {
    if (at_ == At::skipped) return true;
    if (at_ == At::top_value) return skip_or_refuse(found, code) && leave_skipped_value();
    return unexpected(found, code);
  }

  bool begin_user(Code& code) {
    if (sink_.users.size() == kMaxUsers) return refuse(fmt::format("expected at most {} users", kMaxUsers), code);
    const auto index = static_cast<std::uint32_t>(sink_.users.size());
    if (!sink_.users.emplace(user_, index).second) {
      return refuse(fmt::format("user {}: expected every user once, found it again", user_), code);
    }
    sink_.dataset.user_names.push_back(user_);
    images_ = 0;
    labels_ = 0;
    return enter(At::user);
  }
  bool end_user(Code& code) {
    if (images_ != labels_) {
      return refuse(
          fmt::format("user {}: expected as many labels as samples, found {} and {}", user_, labels_, images_), code);
    }
    const auto index = static_cast<std::uint32_t>(sink_.users.size() - 1);
    sink_.dataset.users.insert(sink_.dataset.users.end(), images_, index);
    found_.emplace(user_, images_);
    return enter(At::users_data);
  }

  bool whole(std::uint64_t value, Code& code) {
    if (at_ == At::counts) {
      if (counts_.size() == kMaxUsers) return refuse(fmt::format("expected at most {} users", kMaxUsers), code);
      counts_.push_back(value);
      return true;
    }
    if (at_ != At::labels) return number(static_cast<double>(value), code);
    if (value >= kClasses) return unexpected(fmt::format("{}", value).c_str(), code);
    if (sink_.dataset.labels.size() == kMaxSamples)
      return refuse(fmt::format("expected at most {} samples", kMaxSamples), code);
    sink_.dataset.labels.push_back(static_cast<std::uint8_t>(value));
    ++labels_;
    return true;
  }
  bool number(double value, Code& code) {
    if (at_ != At::image) return scalar(fmt::format("{}", value).c_str(), code);
    if (!(value >= 0.0 && value <= 1.0)) return unexpected(fmt::format("{}", value).c_str(), code);
    if (pixels_ == kPixels) return wrong_sample(images_, fmt::format("{} pixels, found more", kPixels), code);
    sink_.dataset.pixels.push_back(static_cast<std::uint8_t>(value * 255.0 + 0.5));
    ++pixels_;
    return true;
  }

  bool check_lists(Code& code) {
    for (const char* section : {"users", "num_samples", "user_data"}) {
      if (std::ranges::find(sections_, section) == sections_.end()) {
        return refuse(fmt::format("expected users, num_samples and user_data, found no {}", section), code);
      }
    }
    if (names_.size() != counts_.size() || names_.size() != found_.size()) {
      return refuse(fmt::format("expected as many users as num_samples and in user_data, found {}, {} and {}",
                                names_.size(), counts_.size(), found_.size()),
                    code);
    }
    for (std::size_t i = 0; i < names_.size(); ++i) {
      const auto found = found_.extract(names_[i]);  // each may be named once
      if (found.empty())
        return refuse(fmt::format("user {}: expected it once in user_data, found none", names_[i]), code);
      if (found.mapped() != counts_[i]) {
        return refuse(fmt::format("user {}: expected {} samples as in num_samples, found {}", names_[i], counts_[i],
                                  found.mapped()),
                      code);
      }
    }
    return true;
  }

  Sink& sink_;
  At at_ = At::start;
  std::string text_;  // of a key or a string that comes in parts
  std::string key_;
  std::string user_;
  std::string mistake_;
  std::vector<std::string> sections_;  // seen of the three
  std::vector<std::string> names_;
  std::vector<std::uint64_t> counts_;
  std::unordered_map<std::string, std::size_t> found_;  // samples of this file's users
  std::size_t images_ = 0;                              // of the user
  std::size_t labels_ = 0;
  std::size_t pixels_ = 0;  // of the image
  std::size_t skipped_depth_ = 0;
};

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

Status read_leaf_file(const std::filesystem::path& path, Sink& sink) {
  const auto file = std::make_unique<ContentReader>();
  GLEANER_TRY(file->open(path));
  json::basic_parser<Handler> parser(json::parse_options{}, sink);
  std::vector<std::uint8_t> block(256 * 1024);
  std::uint64_t offset = 0;
  for (bool more = true; more;) {
    GLEANER_ASSIGN(const std::size_t got, file->read(block));
    more = got == block.size();
    const auto* text = reinterpret_cast<const char*>(block.data());
    std::size_t used = 0;
    if (!parser.done()) {
      Code code;
      used = parser.write_some(more, text, got, code);
      if (code) {
        const std::string& mistake = parser.handler().mistake();
        return fail(ErrorCode::corrupt, mistake.empty() ? fmt::format("{}: byte {}: expected JSON of LEAF, found: {}",
                                                                      file->path(), offset + used, code.message())
                                                        : fmt::format("{}: {}", file->path(), mistake));
      }
    }
    const auto* rest = std::find_if_not(text + used, text + got, is_space);
    if (rest != text + got) {
      return fail(ErrorCode::corrupt, fmt::format("{}: byte {}: expected the end of the file, found more", file->path(),
                                                  offset + static_cast<std::uint64_t>(rest - text)));
    }
    offset += got;
  }
  return file->expect_end();
}

Result<std::vector<std::filesystem::path>> json_files(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.ends_with(".json") || name.ends_with(".json.gz")) files.push_back(entry->path());
  }
  if (error)
    return fail(ErrorCode::not_found, fmt::format("{}: cannot be listed: {}", folder.string(), error.message()));
  if (files.empty()) return fail(ErrorCode::not_found, fmt::format("{}: no *.json is there", folder.string()));
  std::ranges::sort(files);
  return files;
}

}  // namespace

Result<Dataset> load_leaf_femnist(const std::filesystem::path& directory, Split split,
                                  const Standardisation& standardisation) {
  Dataset dataset;
  dataset.height = kSide;
  dataset.width = kSide;
  dataset.channels = 1;
  dataset.features = kPixels;
  dataset.classes = kClasses;
  dataset.standardisation = standardisation;
  const std::filesystem::path folder = directory / (split == Split::train ? "train" : "test");
  GLEANER_ASSIGN(const auto files, json_files(folder));
  Sink sink{dataset, {}};
  for (const auto& file : files) GLEANER_TRY(read_leaf_file(file, sink));
  if (dataset.labels.empty()) {
    return fail(ErrorCode::corrupt, fmt::format("{}: expected samples, found none", folder.string()));
  }
  dataset.samples = static_cast<std::uint32_t>(dataset.labels.size());
  return dataset;
}

}  // namespace gleaner
