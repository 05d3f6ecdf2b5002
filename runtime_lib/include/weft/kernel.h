// The headers that emitted host kernels include.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>

#include "weft/ask.h"
#include "weft/contract.h"
#include "weft/host.h"
#include "weft/math.h"
#include "weft/past_caches.h"
#include "weft/planes.h"
#include "weft/random.h"
#include "weft/row_extremes.h"
#include "weft/row_sums.h"
#include "weft/scan.h"
#include "weft/scratch.h"
#include "weft/trigonometry.h"

// Vector reductions in which NaN wins.
#pragma omp declare reduction(weft_maximum                                \
                              : float, double                             \
                              : omp_out = weft::maximum(omp_out, omp_in)) \
    initializer(omp_priv = -std::numeric_limits <decltype(omp_priv)>::infinity())
#pragma omp declare reduction(weft_minimum                                \
                              : float, double                             \
                              : omp_out = weft::minimum(omp_out, omp_in)) \
    initializer(omp_priv = std::numeric_limits <decltype(omp_priv)>::infinity())
