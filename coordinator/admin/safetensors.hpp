#pragma once
// A model as a safetensors file: the length of a JSON header as a little-endian u64, the header, which names every
// tensor with its dtype, shape and place, and the values in the model's own order. The header is padded with spaces so
// that the values start at a multiple of eight.

#include <string>

#include "common/error.hpp"
#include "coordinator/admin/backend.hpp"

namespace gleaner::admin {

// Everything that stands in front of the values; these are the bytes of model.parameters. Errors: fatal when the
// parameters do not fit the model's description.
Result<std::string> safetensors_header(const ExportedModel& model);

}  // namespace gleaner::admin
