// What the steps of a training print and log: outputs of the model.
#pragma once
#include <string>

namespace weftc {

struct Training {
  std::string loss, rate;
  std::string norm;  // of all gradients together; empty: it is not computed
};

}  // namespace weftc
