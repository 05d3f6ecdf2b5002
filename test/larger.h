// The largest of errors.
#pragma once
#include <cmath>

/// The larger one; NaN where one is: std::max(x, NaN) is x, so that a result of NaN would pass for right.
inline double larger(double worst, double error) { return std::isnan(worst) || worst > error ? worst : error; }
