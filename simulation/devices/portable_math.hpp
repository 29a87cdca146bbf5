#pragma once
// exp, log and normal numbers of IEEE +, -, *, / and square roots alone, so that what is drawn with them is the same to
// the last bit on every machine, which a machine's libm does not promise. Relative error below 1e-15 but near log(1).

#include "common/random.hpp"

namespace gleaner::simulation {

double portable_exp(double x);  // |x| at most 700; beyond it is taken there
double portable_log(double x);  // x positive and normal

double portable_normal(Random& random);       // mean 0, deviation 1 (Marsaglia's polar method)
double portable_exponential(Random& random);  // mean 1

}  // namespace gleaner::simulation
