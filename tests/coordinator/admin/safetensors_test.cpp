#include "coordinator/admin/safetensors.hpp"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cstring>
#include <map>

#include "tests/coordinator/admin/fake_backend.hpp"

namespace gleaner::admin {
namespace {

namespace json = boost::json;

struct Parsed {
  std::uint64_t header_bytes = 0;
  json::object header;
};

// By the rules of the format alone.
Parsed parse(const std::string& text) {
  Parsed parsed;
  std::memcpy(&parsed.header_bytes, text.data(), sizeof(parsed.header_bytes));
  parsed.header = json::parse(text.substr(8)).as_object();
  return parsed;
}

class Safetensors : public testing::TestWithParam<const char*> {};

TEST_P(Safetensors, HeaderCoversTheValuesWithoutHoles) {
  const ExportedModel model = sample_model(GetParam());
  const auto text = safetensors_header(model);
  ASSERT_TRUE(text);
  const Parsed parsed = parse(*text);
  EXPECT_EQ(parsed.header_bytes + 8, text->size());
  EXPECT_EQ(parsed.header_bytes % 8, 0U);
  EXPECT_EQ((*text)[8], '{');
  std::map<std::uint64_t, std::uint64_t> pieces;
  for (const auto& [name, value] : parsed.header) {
    if (name == "__metadata__") continue;
    EXPECT_EQ(value.at("dtype").as_string(), "F32");
    std::uint64_t bytes = sizeof(float);
    for (const auto& dim : value.at("shape").as_array()) bytes *= dim.to_number<std::uint64_t>();
    const auto begin = value.at("data_offsets").at(0).to_number<std::uint64_t>();
    const auto end = value.at("data_offsets").at(1).to_number<std::uint64_t>();
    EXPECT_EQ(end - begin, bytes) << name;
    pieces[begin] = end;
  }
  EXPECT_EQ(pieces.size(), tensors_of(model.spec).size());
  std::uint64_t at = 0;
  for (const auto& [begin, end] : pieces) {
    EXPECT_EQ(begin, at);
    at = end;
  }
  EXPECT_EQ(at, model.parameters.size() * sizeof(float));
}

TEST_P(Safetensors, MetadataIsTextThatNamesTheModel) {
  const Parsed parsed = parse(*safetensors_header(sample_model(GetParam())));
  const json::object& metadata = parsed.header.at("__metadata__").as_object();
  for (const auto& [key, value] : metadata) EXPECT_TRUE(value.is_string()) << key;
  EXPECT_EQ(metadata.at("run").as_string(), "demo");
  EXPECT_EQ(metadata.at("version").as_string(), "11");
  EXPECT_EQ(metadata.at("model").as_string(), GetParam());
  EXPECT_EQ(metadata.at("model_hash").as_string(), "000000000000feed");
}

INSTANTIATE_TEST_SUITE_P(Models, Safetensors, testing::Values("softmax", "mlp", "lenet"));

TEST(SafetensorsErrors, ParametersThatDoNotFitAreRefused) {
  ExportedModel model = sample_model("mlp");
  model.parameters.pop_back();
  const auto text = safetensors_header(model);
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code(), ErrorCode::fatal);
}

}  // namespace
}  // namespace gleaner::admin
