#include "coordinator/admin/safetensors.hpp"

#include <fmt/format.h>

#include <boost/json.hpp>

#include "common/bytes.hpp"
#include "common/text.hpp"

namespace gleaner::admin {
namespace {

namespace json = boost::json;

json::object metadata_of(const ExportedModel& model) {
  return {{"format", "pt"},           {"producer", "gleaner"},
          {"run", model.run},         {"version", fmt::format("{}", model.version.value)},
          {"model", model.spec.name}, {"model_hash", to_hex(model.hash)}};
}

}  // namespace

Result<std::string> safetensors_header(const ExportedModel& model) {
  json::object header;
  header["__metadata__"] = metadata_of(model);
  std::uint64_t offset = 0;
  for (const TensorShape& tensor : tensors_of(model.spec)) {
    const std::uint64_t end = offset + tensor.size() * sizeof(float);
    header[tensor.name] = {{"dtype", "F32"},
                           {"shape", json::array(tensor.dims.begin(), tensor.dims.end())},
                           {"data_offsets", json::array{offset, end}}};
    offset = end;
  }
  if (offset != model.parameters.size() * sizeof(float)) {
    return fail(ErrorCode::fatal, fmt::format("run {}: the model {} has {} parameters, but {} were exported", model.run,
                                              model.spec.name, offset / sizeof(float), model.parameters.size()));
  }
  std::string text = json::serialize(header);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  Bytes length;
  ByteWriter(length).put<std::uint64_t>(text.size());
  return std::string(as_text(length)) + text;
}

}  // namespace gleaner::admin
