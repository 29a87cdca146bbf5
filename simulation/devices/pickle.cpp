#include "simulation/devices/pickle.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <optional>
#include <unordered_map>

#include "simulation/devices/pickle_text.hpp"

namespace gleaner::simulation::pickle {
namespace {

// What stands on the machine's stack: a value, or the mark that a group of items begins at.
struct Mark {};
using Slot = std::variant<Mark, Value>;

constexpr std::string_view kRemedy =
    "only dict, list, int, float and str can be read; in Python, convert with dict(), list(), float() and int() before "
    "pickle.dump";

class Machine {
 public:
  explicit Machine(std::string_view bytes) : bytes_(bytes) {}

  Result<Document> run() {
    while (!is_done_ && !fault_) step();
    if (!fault_ && at_ != bytes_.size()) fault(fmt::format("{} bytes follow the end", bytes_.size() - at_));
    if (fault_) return fail(ErrorCode::bad_input, fmt::format("byte {}: {}", fault_at_, *fault_));
    return std::move(document_);
  }

 private:
  void fault(std::string what) {
    if (fault_) return;
    fault_ = std::move(what);
    fault_at_ = at_;
  }

  std::string_view take(std::uint64_t size) {
    if (size > bytes_.size() - at_) {
      fault(fmt::format("ends too early: {} more bytes were to come", size - (bytes_.size() - at_)));
      return {};
    }
    const std::string_view taken = bytes_.substr(at_, static_cast<std::size_t>(size));
    at_ += taken.size();
    return taken;
  }

  // An unsigned little-endian number of so many bytes.
  std::uint64_t number(std::size_t size) {
    std::uint64_t value = 0;
    const std::string_view taken = take(size);
    for (std::size_t i = taken.size(); i > 0; --i) value = (value << 8) | static_cast<unsigned char>(taken[i - 1]);
    return value;
  }

  std::string_view line() {
    const auto end = bytes_.find('\n', at_);
    if (end == std::string_view::npos) {
      fault("a line without an end");
      return {};
    }
    const std::string_view taken = bytes_.substr(at_, end - at_);
    at_ = end + 1;
    return taken;
  }

  void push(Value value) { stack_.emplace_back(value); }

  void push_text(std::optional<std::string> text) {
    if (fault_) return;
    if (!text) return fault("a string that is not UTF-8 or has a wrong escape");
    document_.texts.push_back(std::move(*text));
    push(Text{static_cast<std::uint32_t>(document_.texts.size() - 1)});
  }
  void push_list() {
    document_.lists.emplace_back();
    push(List{static_cast<std::uint32_t>(document_.lists.size() - 1)});
  }
  void push_dict() {
    document_.dicts.emplace_back();
    push(Dict{static_cast<std::uint32_t>(document_.dicts.size() - 1)});
  }

  // Two's complement of up to eight bytes: nothing that a trace counts is larger.
  void push_long(std::uint64_t size) {
    if (size > 8) return fault(fmt::format("an integer of {} bytes, expected at most 8", size));
    const auto width = static_cast<unsigned>(size * 8);
    std::uint64_t value = number(static_cast<std::size_t>(size));
    if (width > 0 && width < 64 && ((value >> (width - 1)) & 1U) != 0) value |= ~0ULL << width;
    push(static_cast<std::int64_t>(value));
  }

  void push_decimal(std::string_view text) {
    if (fault_) return;
    if (text.ends_with('L')) text.remove_suffix(1);
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return fault("no integer of 64 bits");
    push(value);
  }

  void push_int_line() {
    const std::string_view text = line();
    if (text == "00" || text == "01") return push(text == "01");
    push_decimal(text);
  }

  void push_float_line() {
    const std::string_view text = line();
    if (fault_) return;
    double value = 0.0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return fault("no number");
    push(value);
  }

  // A double with its highest byte first.
  void push_float() {
    std::uint64_t bits = 0;
    for (const char c : take(8)) bits = (bits << 8) | static_cast<unsigned char>(c);
    push(std::bit_cast<double>(bits));
  }

  const Value* top() const { return stack_.empty() ? nullptr : std::get_if<Value>(&stack_.back()); }

  // Where the items since the last mark begin; takes the mark away once they are used by drop_group().
  std::optional<std::size_t> group() {
    for (std::size_t i = stack_.size(); i > 0; --i) {
      if (std::holds_alternative<Mark>(stack_[i - 1])) return i;
    }
    fault("items without a mark before them");
    return std::nullopt;
  }
  void drop_group(std::size_t first) { stack_.resize(first - 1); }

  void append_from(std::size_t first, std::size_t into) {
    const Value* target = into < stack_.size() ? std::get_if<Value>(&stack_[into]) : nullptr;
    const List* list = target == nullptr ? nullptr : std::get_if<List>(target);
    if (list == nullptr) return fault("items for something that is no list");
    auto& items = document_.lists[list->index];
    for (std::size_t i = first; i < stack_.size(); ++i) items.push_back(std::get<Value>(stack_[i]));
  }

  void set_from(std::size_t first, std::size_t into) {
    const Value* target = into < stack_.size() ? std::get_if<Value>(&stack_[into]) : nullptr;
    const Dict* dict = target == nullptr ? nullptr : std::get_if<Dict>(target);
    if (dict == nullptr) return fault("entries for something that is no dictionary");
    if ((stack_.size() - first) % 2 != 0) return fault("a key without a value");
    auto& entries = document_.dicts[dict->index];
    for (std::size_t i = first; i < stack_.size(); i += 2) {
      entries.emplace_back(std::get<Value>(stack_[i]), std::get<Value>(stack_[i + 1]));
    }
  }

  // APPENDS and SETITEMS: the items since the mark go into what lies below it.
  void add_group(bool is_dict) {
    const auto first = group();
    if (!first) return;
    const std::size_t into = *first >= 2 ? *first - 2 : stack_.size();
    if (is_dict) {
      set_from(*first, into);
    } else {
      append_from(*first, into);
    }
    drop_group(*first);
  }

  // APPEND and SETITEM: the last one or two values go into what lies below them.
  void add_one(bool is_dict) {
    const std::size_t count = is_dict ? 2 : 1;
    if (stack_.size() < count + 1) return fault("an item for nothing");
    const std::size_t first = stack_.size() - count;
    for (std::size_t i = first; i < stack_.size(); ++i) {
      if (!std::holds_alternative<Value>(stack_[i])) return fault("a mark where an item was expected");
    }
    if (is_dict) {
      set_from(first, first - 1);
    } else {
      append_from(first, first - 1);
    }
    stack_.resize(first);
  }

  // LIST and DICT: a new one of the items since the mark.
  void make_of_group(bool is_dict) {
    const auto first = group();
    if (!first) return;
    if (is_dict) {
      push_dict();
    } else {
      push_list();
    }
    const Slot made = stack_.back();
    stack_.pop_back();
    stack_[*first - 1] = made;  // in the place of the mark
    if (is_dict) {
      set_from(*first, *first - 1);
    } else {
      append_from(*first, *first - 1);
    }
    stack_.resize(*first);
  }

  void remember(std::uint64_t key) {
    if (fault_) return;
    if (top() == nullptr) return fault("nothing to remember");
    memo_.insert_or_assign(key, *top());
  }
  void recall(std::uint64_t key) {
    if (fault_) return;
    const auto at = memo_.find(key);
    if (at == memo_.end()) return fault("recalls what was never remembered");
    push(at->second);
  }
  // The key of PUT and GET, a line.
  std::uint64_t memo_line() {
    const std::string_view text = line();
    std::uint64_t key = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), key);
    if (!fault_ && (error != std::errc() || end != text.data() + text.size())) fault("no number to remember under");
    return key;
  }

  void stop() {
    if (stack_.size() != 1 || top() == nullptr) return fault("ends with other than one value");
    document_.root = *top();
    is_done_ = true;
  }

  void pop() {
    if (stack_.empty()) return fault("takes a value from an empty stack");
    stack_.pop_back();
  }

  void step() {
    const std::size_t here = at_;
    const std::string_view code = take(1);
    if (fault_) return;
    if (!step_structure(code[0]) && !step_scalar(code[0])) {
      at_ = here;
      fault(fmt::format("the opcode 0x{:02x}: {}", static_cast<unsigned char>(code[0]), kRemedy));
    }
  }

  bool step_structure(char code) {
    switch (code) {
      case '\x80': {
        const auto version = number(1);
        if (version > 4) fault(fmt::format("pickle protocol {}, expected 0 to 4", version));
        break;
      }
      case '\x95': static_cast<void>(number(8)); break;  // FRAME: only a hint
      case '.': stop(); break;
      case '(': stack_.emplace_back(Mark{}); break;
      case '0': pop(); break;
      case '1':
        if (const auto first = group()) drop_group(*first);
        break;
      case '}': push_dict(); break;
      case 'd': make_of_group(true); break;
      case 's': add_one(true); break;
      case 'u': add_group(true); break;
      case ']': push_list(); break;
      case 'l': make_of_group(false); break;
      case 'a': add_one(false); break;
      case 'e': add_group(false); break;
      case 'p': remember(memo_line()); break;
      case 'q': remember(number(1)); break;
      case 'r': remember(number(4)); break;
      case '\x94': remember(memo_.size()); break;
      case 'g': recall(memo_line()); break;
      case 'h': recall(number(1)); break;
      case 'j': recall(number(4)); break;
      default: return false;
    }
    return true;
  }

  bool step_scalar(char code) {
    switch (code) {
      case 'N': push(std::monostate{}); break;
      case '\x88': push(true); break;
      case '\x89': push(false); break;
      case 'I': push_int_line(); break;
      case 'L': push_decimal(line()); break;
      case 'J': push_long(4); break;
      case 'K': push(static_cast<std::int64_t>(number(1))); break;
      case 'M': push(static_cast<std::int64_t>(number(2))); break;
      case '\x8a': push_long(number(1)); break;
      case '\x8b': push_long(number(4)); break;
      case 'F': push_float_line(); break;
      case 'G': push_float(); break;
      case 'S': push_text(from_python_literal(line())); break;
      case 'V': push_text(from_raw_unicode(line())); break;
      case 'T': push_text(checked_utf8(take(number(4)))); break;
      case 'U': push_text(checked_utf8(take(number(1)))); break;
      case 'X': push_text(checked_utf8(take(number(4)))); break;
      case '\x8c': push_text(checked_utf8(take(number(1)))); break;
      case '\x8d': push_text(checked_utf8(take(number(8)))); break;
      default: return false;
    }
    return true;
  }

  std::string_view bytes_;
  std::size_t at_ = 0;
  bool is_done_ = false;
  std::optional<std::string> fault_;
  std::size_t fault_at_ = 0;
  std::vector<Slot> stack_;
  std::unordered_map<std::uint64_t, Value> memo_;  // looked up only, never walked through
  Document document_;
};

}  // namespace

const std::string* Document::text(const Value& value) const {
  const auto* at = std::get_if<Text>(&value);
  return at == nullptr ? nullptr : &texts[at->index];
}

const std::vector<Value>* Document::list(const Value& value) const {
  const auto* at = std::get_if<List>(&value);
  return at == nullptr ? nullptr : &lists[at->index];
}

const std::vector<std::pair<Value, Value>>* Document::dict(const Value& value) const {
  const auto* at = std::get_if<Dict>(&value);
  return at == nullptr ? nullptr : &dicts[at->index];
}

std::string Document::describe(const Value& value) const {
  if (const std::string* found = text(value)) return fmt::format("\"{}\"", std::string_view(*found).substr(0, 40));
  if (list(value) != nullptr) return "a list";
  if (dict(value) != nullptr) return "a dictionary";
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "True" : "False";
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return fmt::format("{}", *integer);
  if (const auto* real = std::get_if<double>(&value)) return fmt::format("{}", *real);
  return "None";
}

Result<Document> load(std::string_view bytes) { return Machine(bytes).run(); }

}  // namespace gleaner::simulation::pickle
