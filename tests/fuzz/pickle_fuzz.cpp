// Whatever the bytes, a pickle is refused or every value in it names a text, list or dictionary that is there, and
// there are no more values than bytes.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "common/check.hpp"
#include "simulation/devices/pickle.hpp"

namespace gleaner::simulation::pickle {
namespace {

void check_value(const Document& document, const Value& value) {
  if (const auto* text = std::get_if<Text>(&value)) GLEANER_CHECK(text->index < document.texts.size());
  if (const auto* list = std::get_if<List>(&value)) GLEANER_CHECK(list->index < document.lists.size());
  if (const auto* dict = std::get_if<Dict>(&value)) GLEANER_CHECK(dict->index < document.dicts.size());
  GLEANER_CHECK(!document.describe(value).empty());
}

void run(std::string_view bytes) {
  const auto document = load(bytes);
  if (!document) {
    GLEANER_CHECK(document.error().message().starts_with("byte "));
    return;
  }
  std::size_t values = 1;
  check_value(*document, document->root);
  for (const auto& list : document->lists) {
    values += list.size();
    for (const Value& value : list) check_value(*document, value);
  }
  for (const auto& dict : document->dicts) {
    values += 2 * dict.size();
    for (const auto& [key, value] : dict) {
      check_value(*document, key);
      check_value(*document, value);
    }
  }
  GLEANER_CHECK(values <= bytes.size());
}

}  // namespace
}  // namespace gleaner::simulation::pickle

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  gleaner::simulation::pickle::run({reinterpret_cast<const char*>(bytes), size});
  return 0;
}
