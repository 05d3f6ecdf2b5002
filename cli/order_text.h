// An order of a pipeline for people: a picture for a terminal, and its figures as JSON.
#pragma once
#include <string>

#include "passes/pipelining/order_picture.h"

namespace weftc {

/// A phase in the picture of an order: "warm-up", "period", "drain".
struct OrderPart {
  std::string name;
  int64_t begin, end;
};
/// The phases in order. The first period is a phase, and all further periods together are another.
std::vector<OrderPart> parts_of(const OrderPicture& picture);

/// "4.90 us".
std::string nanoseconds_text(int64_t time);
/// "25 %".
std::string share_text(double share);
/// "period of 1 micro-batch: 913 ns, 3 times; warm-up 1.2 us, drain 900 ns", without a period: "no period: ...".
std::string period_text(const OrderPicture& picture);
/// The most memory that a rank holds, including its permanent memory.
int64_t peak_of(const PictureLane& lane);

/// The picture for a terminal of 100 columns, one line per rank. `source`: "predicted", "of measured times",
/// "measured".
std::string order_text(const OrderPicture& picture, const std::string& source);
/// Figures of the whole and of each rank, in seconds and bytes.
std::string order_json(const OrderPicture& picture);

}  // namespace weftc
