#pragma once
// A device's own samples, from what its configuration binds a name to.

#include <string>

#include "client/config.hpp"
#include "common/error.hpp"
#include "training/dataset.hpp"

namespace gleaner {

// The training split, read with the name's customary standardisation; of a binding with a split only this device's
// share stays in memory. classes: the run's, since a device's files need not have every label; 0 = the name's, or the
// largest label + 1.
Result<Dataset> load_own_samples(const std::string& name, const DataBinding& binding, std::uint32_t classes);

}  // namespace gleaner
