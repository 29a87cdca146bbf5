#include "cli/json_view.hpp"

#include <fmt/format.h>

#include "cli/table.hpp"

namespace gleaner::cli {

namespace json = boost::json;

JsonView JsonView::operator[](std::string_view key) const {
  const json::object* object = value_ != nullptr ? value_->if_object() : nullptr;
  const json::value* found = object != nullptr ? object->if_contains({key.data(), key.size()}) : nullptr;
  return found != nullptr ? JsonView(*found) : JsonView();
}

std::vector<JsonView> JsonView::items() const {
  std::vector<JsonView> out;
  const json::array* array = value_ != nullptr ? value_->if_array() : nullptr;
  if (array == nullptr) return out;
  for (const json::value& item : *array) out.emplace_back(item);
  return out;
}

std::string JsonView::text() const {
  const json::string* text = value_ != nullptr ? value_->if_string() : nullptr;
  return text != nullptr ? printable(std::string(text->data(), text->size())) : "";
}

bool JsonView::flag() const {
  const bool* flag = value_ != nullptr ? value_->if_bool() : nullptr;
  return flag != nullptr && *flag;
}

std::optional<double> JsonView::number() const {
  if (value_ == nullptr || !value_->is_number()) return std::nullopt;
  return value_->to_number<double>();
}

std::uint64_t JsonView::count() const {
  if (value_ == nullptr) return 0;
  if (value_->is_uint64()) return value_->get_uint64();
  return value_->is_int64() && value_->get_int64() > 0 ? static_cast<std::uint64_t>(value_->get_int64()) : 0;
}

Result<json::value> parse_reply(const std::string& text) {
  json::error_code error;
  json::value value = json::parse(text, error);
  if (error) return fail(ErrorCode::fatal, fmt::format("the coordinator sent no valid JSON: {}", error.message()));
  return value;
}

}  // namespace gleaner::cli
