// Annotations after a node's operands in text models, an extension of ONNX's text syntax. The exporter's modules around
// a node are given by their paths, outer first: `@ ["layers.0", "layers.0.fc"]`. Device annotations are
//
//   @ four stage 1 { w [1: 4] [0, 1, 2, 3], x [] [{0, 1, 2, 3}], qkv [1: (3: 1, 64: 4)] [0, 1, 2, 3] }
//
// the configuration, the pipeline stage, and for each tensor its sharded axes and the devices of its shards, with a
// group in braces. The model's header has `configuration: ["four" : 4]`.
#include "frontend/onnx_text_parser.h"

namespace weftc {

void OnnxTextParser::configurations() {
  expect("[", "before the configurations");
  do {
    const std::string name = text("the name of a configuration");
    expect(":", "after the name");
    model_.configurations.push_back({name, whole("the number of devices")});
  } while (eat(","));
  expect("]", "after the configurations");
}

/// 1: 4, or for fused dims 1: (3: 1, 64: 4) with their lengths.
OnnxShardedAxis OnnxTextParser::sharded_axis() {
  OnnxShardedAxis axis;
  axis.axis = whole("an axis");
  expect(":", "after the axis");
  if (!eat("(")) {
    axis.parts.push_back({0, whole("a number of shards")});
    return axis;
  }
  do {
    const int64_t extent = whole("the length of a fused dim");
    expect(":", "after the length");
    axis.parts.push_back({extent, whole("a number of shards")});
  } while (eat(","));
  expect(")", "after the fused dims");
  return axis;
}

/// Device numbers; a group gets a key of its own, as in ONNX.
void OnnxTextParser::sharding_devices(OnnxSharding& sharding) {
  expect("[", "before the devices");
  do {
    if (!eat("{")) {
      sharding.devices.push_back(whole("a device"));
      continue;
    }
    const int64_t key = -1 - static_cast<int64_t>(sharding.groups.size());
    sharding.devices.push_back(key);
    do sharding.groups[key].push_back(whole("a device"));
    while (eat(","));
    expect("}", "after the group");
  } while (eat(","));
  expect("]", "after the devices");
}

OnnxSharding OnnxTextParser::sharding() {
  OnnxSharding made;
  made.tensor = id("the name of a tensor");
  expect("[", "before the sharded axes");
  if (!eat("]")) {
    do made.axes.push_back(sharded_axis());
    while (eat(","));
    expect("]", "after the sharded axes");
  }
  sharding_devices(made);
  return made;
}

void OnnxTextParser::annotation(OnnxNode& node) {
  if (!eat("[")) {
    node.devices.push_back(node_devices());
    return;
  }
  do node.modules.push_back(text("the path of a module"));
  while (eat(","));
  expect("]", "after the paths of modules");
}

OnnxNodeDevices OnnxTextParser::node_devices() {
  OnnxNodeDevices made;
  made.configuration = id("the name of a configuration");
  if (is_name("stage")) {
    take();
    made.stage = whole("a pipeline stage");
  }
  if (!eat("{")) return made;
  do made.shardings.push_back(sharding());
  while (eat(","));
  expect("}", "after the sharding specs");
  return made;
}

}  // namespace weftc
