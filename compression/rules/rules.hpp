#pragma once
// The factories of the rows in rules/registry.cpp, and what the rules share.

#include <memory>

#include "compression/upload_rule.hpp"

namespace gleaner {

std::unique_ptr<UploadRule> make_always(const UploadRuleOptions& options);
std::unique_ptr<UploadRule> make_residual_rule(const UploadRuleOptions& options);
std::unique_ptr<UploadRule> make_lasg_wk2(const UploadRuleOptions& options);
std::unique_ptr<UploadRule> make_clag(const UploadRuleOptions& options);

// The largest float that is not above x >= 0, so that a left side equal to x still reaches the threshold.
float threshold_from(double x);

}  // namespace gleaner
