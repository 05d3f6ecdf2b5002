// Numbers of layers in texts. If a step has a layer, the compiler writes nothing else in braces.
#include "step_text.h"

#include <cstdio>
#include <cstring>

namespace weft {

std::string in_layer(const char* text, int layer) {
  std::string out;
  const char* at = text;
  while (const char* open = layer == kNoLayer ? nullptr : strchr(at, '{')) {
    out.append(at, open);
    long factor = 1, more = 0;
    char sign = '+';
    int length = 0;
    if (sscanf(open, "{%ld * layer%n", &factor, &length) < 1) sscanf(open, "{layer%n", &length);
    int rest = 0;
    if (sscanf(open + length, " %c %ld%n", &sign, &more, &rest) == 2) length += rest;
    if (open[length] != '}') return out + open;  // a long name was cut here
    out += std::to_string(factor * layer + (sign == '-' ? -more : more));
    at = open + length + 1;
  }
  return out + at;
}

}  // namespace weft
