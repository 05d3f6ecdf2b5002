// An order of a pipeline for people: the picture of a terminal, and its figures as JSON.
#pragma once
#include <string>

#include "passes/pipelining/order_picture.h"

namespace weftc {

/// Where the picture of an order ends to be one thing and begins to be the next: "warm-up", "period", "drain".
struct OrderPart {
  std::string name;
  int64_t begin, end;
};
/// Side by side. Of the periods the first is a part, and the others together are the next one.
std::vector<OrderPart> parts_of(const OrderPicture& picture);

/// "4.90 us".
std::string nanoseconds_text(int64_t time);
/// "25 %".
std::string share_text(double share);
/// "period of 1 micro-batch: 913 ns, 3 times; warm-up 1.2 us, drain 900 ns", without a period: "no period: ...".
std::string period_text(const OrderPicture& picture);
/// The most that a rank holds, with what it holds all the time.
int64_t peak_of(const PictureLane& lane);

/// For a terminal of 100 columns, a line for each rank. `source`: "predicted", "of measured times",
/// "measured".
std::string order_text(const OrderPicture& picture, const std::string& source);
/// In seconds and bytes; figures of the whole and of each rank.
std::string order_json(const OrderPicture& picture);

}  // namespace weftc
