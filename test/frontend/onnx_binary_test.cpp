// Binary models and tensors in files: where their bytes are, and what is refused.
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "frontend/onnx_inspect.h"
#include "frontend/tensor_file.h"
#include "ir/string_table.h"
#include "onnx.pb.h"
#include "reading.h"

using namespace weftc;
namespace fs = std::filesystem;

namespace {

/// A folder that disappears with the test.
struct Folder {
  fs::path path;
  Folder() {
    std::string pattern = (fs::temp_directory_path() / "weft_frontend_XXXXXX").string();
    path = mkdtemp(pattern.data());
  }
  ~Folder() { fs::remove_all(path); }
  std::string write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path / name, std::ios::binary) << bytes;
    return (path / name).string();
  }
};

/// y = Add(x, w) over three floats.
onnx::ModelProto add_model() {
  onnx::ModelProto model;
  model.set_ir_version(10);
  model.add_opset_import()->set_version(20);
  onnx::GraphProto& graph = *model.mutable_graph();
  for (onnx::ValueInfoProto* value : {graph.add_input(), graph.add_output()}) {
    value->set_name(graph.output_size() ? "y" : "x");
    value->mutable_type()->mutable_tensor_type()->set_elem_type(1);
    value->mutable_type()->mutable_tensor_type()->mutable_shape()->add_dim()->set_dim_value(3);
  }
  graph.mutable_input(0)->set_name("x");
  onnx::NodeProto& node = *graph.add_node();
  node.set_op_type("Add");
  node.add_input("x");
  node.add_input("w");
  node.add_output("y");
  onnx::TensorProto& weight = *graph.add_initializer();
  weight.set_name("w");
  weight.set_data_type(1);
  weight.add_dims(3);
  return model;
}

onnx::TensorProto& weight_of(onnx::ModelProto& model) { return *model.mutable_graph()->mutable_initializer(0); }

const char kThree[] = "\0\0\x80\x3f\0\0\0\x40\0\0\x40\x40";  // 1, 2, 3
std::string three() { return {kThree, 12}; }

ReadModel read_binary(const std::string& bytes, const Folder& folder = {}) {
  ReadModel read;
  ReadOptions options;
  options.path = folder.write("m.onnx", bytes);
  read.module = read_onnx(options, read.diags);
  return read;
}

std::vector<double> weight(const ReadModel& read) {
  REQUIRE_MESSAGE(read.module, read.diags.text());
  const Graph& graph = read.module->graph;
  return read.module->constants.tensor(graph.producer_op(graph.find_value("w")).constant("value")).real;
}

void set_external(onnx::TensorProto& tensor, const std::vector<std::pair<std::string, std::string>>& entries) {
  tensor.clear_raw_data();
  tensor.clear_external_data();
  tensor.set_data_location(onnx::TensorProto::EXTERNAL);
  for (const auto& [key, value] : entries) {
    auto* entry = tensor.add_external_data();
    entry->set_key(key);
    entry->set_value(value);
  }
}

}  // namespace

TEST_CASE("raw bytes and typed fields") {
  onnx::ModelProto model = add_model();
  weight_of(model).set_raw_data(three());
  CHECK(weight(read_binary(model.SerializeAsString())) == std::vector<double>{1, 2, 3});

  weight_of(model).clear_raw_data();
  for (float f : {1.f, 2.f, 3.f}) weight_of(model).add_float_data(f);
  CHECK(weight(read_binary(model.SerializeAsString())) == std::vector<double>{1, 2, 3});

  weight_of(model).clear_float_data();
  weight_of(model).set_data_type(10);
  for (int half : {0x3c00, 0x4000, 0x4200}) weight_of(model).add_int32_data(half);
  CHECK(weight(read_binary(model.SerializeAsString())) == std::vector<double>{1, 2, 3});
}

TEST_CASE("tensors that do not hold what they say") {
  const auto ids = [](auto change) {
    onnx::ModelProto model = add_model();
    weight_of(model).set_raw_data(three());
    change(weight_of(model));
    return read_binary(model.SerializeAsString()).ids();
  };
  CHECK(ids([](auto& w) { w.set_raw_data("abc"); }) == "tensor-size");
  CHECK(ids([](auto& w) { w.set_dims(0, -3); }) == "tensor-dims");
  CHECK(ids([](auto& w) { w.set_dims(0, int64_t{1} << 50); }) == "tensor-dims");
  CHECK(ids([](auto& w) { w.set_data_type(14); }) == "tensor-type-unsupported");
  CHECK(ids([](auto& w) { w.set_data_type(999); }) == "tensor-type-unsupported");
  CHECK(ids([](auto& w) {
          w.clear_raw_data();
          w.add_int64_data(3);
        }) == "tensor-data");
  CHECK(ids([](auto& w) {
          w.clear_raw_data();
          w.add_float_data(3);
          w.add_int32_data(3);
        }) == "tensor-data");
  CHECK(ids([](auto& w) { w.mutable_segment(); }) == "tensor-data");
  CHECK(ids([](auto& w) { w.set_data_type(8); }) == "tensor-data");
  for (const std::string& string : {std::string(256, 'x'), std::string("\xff")})
    CHECK(ids([&](auto& w) {
            w.clear_raw_data();
            w.set_data_type(8);
            for (int i = 0; i < 3; ++i) w.add_string_data(string);
          }) == "tensor-data");
}

TEST_CASE("external data is mapped from the model's folder") {
  const Folder folder;
  folder.write("w.bin", "abcd" + three());
  onnx::ModelProto model = add_model();
  set_external(weight_of(model), {{"location", "w.bin"}, {"offset", "4"}, {"length", "12"}});
  CHECK(weight(read_binary(model.SerializeAsString(), folder)) == std::vector<double>{1, 2, 3});
  fs::create_directory(folder.path / "data");
  fs::rename(folder.path / "w.bin", folder.path / "data/w.bin");
  set_external(weight_of(model), {{"location", "data/w.bin"}, {"offset", "4"}});
  CHECK(weight(read_binary(model.SerializeAsString(), folder)) == std::vector<double>{1, 2, 3});
}

TEST_CASE("external data never leaves the model's folder nor its file") {
  const Folder folder, elsewhere;
  const std::string outside = elsewhere.write("w.bin", three());
  folder.write("w.bin", three());
  fs::create_symlink(outside, folder.path / "link.bin");
  fs::create_symlink(elsewhere.path, folder.path / "sub");
  fs::create_directory(folder.path / "empty");
  const auto ids = [&](const std::vector<std::pair<std::string, std::string>>& entries) {
    onnx::ModelProto model = add_model();
    set_external(weight_of(model), entries);
    const ReadModel read = read_binary(model.SerializeAsString(), folder);
    CHECK(read.diags.exit_code() == 1);
    return read.ids();
  };
  for (const std::string& location :
       {outside, std::string("../") + elsewhere.path.filename().string() + "/w.bin", std::string("link.bin"),
        std::string("sub/w.bin"), std::string("empty"), std::string("none.bin"), std::string()})
    CHECK(ids({{"location", location}}) == "external-file");
  CHECK(ids({{"location", "w.bin"}, {"offset", "1"}}) == "external-bounds");
  CHECK(ids({{"location", "w.bin"}, {"offset", "4611686018427387904"}}) == "external-bounds");
  CHECK(ids({{"location", "w.bin"}, {"offset", "-1"}}) == "external-number");
  CHECK(ids({{"location", "w.bin"}, {"offset", "one"}}) == "external-number");
  CHECK(ids({{"location", "w.bin"}, {"length", "8"}}) == "external-length");
}

TEST_CASE("external data may be a link to the blobs of the cache that has the model among its snapshots") {
  const Folder cache, elsewhere;
  const fs::path folder = cache.path / "snapshots/v1/onnx";
  fs::create_directories(folder);
  onnx::ModelProto model = add_model();
  set_external(weight_of(model), {{"location", "w.bin"}});
  elsewhere.write("w.bin", three());
  const auto read = [&](const fs::path& target) {
    fs::remove(folder / "w.bin");
    fs::create_symlink(target, folder / "w.bin");
    ReadModel found;
    std::ofstream(folder / "m.onnx", std::ios::binary) << model.SerializeAsString();
    found.module =
        read_onnx({.path = (folder / "m.onnx").string(), .dims = {}, .shapes = {}, .binds = {}}, found.diags);
    return found;
  };
  const fs::path blob = "../../../blobs/a1";
  CHECK(read(blob).ids() == "external-file");  // there are no blobs
  fs::create_directory(cache.path / "blobs");
  cache.write("blobs/a1", three());
  CHECK(weight(read(blob)) == std::vector<double>{1, 2, 3});
  CHECK(read(elsewhere.path / "w.bin").ids() == "external-file");
  CHECK(read(fs::path("../../../../") / elsewhere.path.filename() / "w.bin").ids() == "external-file");
  set_external(weight_of(model), {{"location", "../../../blobs/a1"}});
  CHECK(read(blob).ids() == "external-file");
}

TEST_CASE("files that are no models") {
  CHECK(read_binary("this is text").ids() == "model-damaged");
  CHECK(read_binary("").ids() == "model-without-graph");
  onnx::ModelProto model = add_model();
  weight_of(model).set_raw_data(three());
  const std::string bytes = model.SerializeAsString();
  CHECK(read_binary(bytes.substr(0, bytes.size() - 5)).ids() == "model-damaged");
  Diags diags;
  CHECK(!read_onnx({.path = "/no/such/model.onnx", .dims = {}, .shapes = {}, .binds = {}}, diags));
  CHECK(!read_onnx({.path = "/no/such/model.onnxtxt", .dims = {}, .shapes = {}, .binds = {}}, diags));
  CHECK(diags.all()[0].id == "model-file");
  CHECK(diags.all()[1].id == "model-text-file");
}

TEST_CASE("a version below the first is no version") {
  for (const int64_t version : {int64_t{-1}, int64_t{0}}) {
    onnx::ModelProto model = add_model();
    weight_of(model).set_raw_data(three());
    model.mutable_opset_import(0)->set_version(version);
    CHECK(read_binary(model.SerializeAsString()).ids() == "opset-unsupported");
  }
}

TEST_CASE("a file of 2 GiB is refused before it is read") {
  const Folder folder;
  const std::string path = folder.write("m.onnx", "");
  fs::resize_file(path, uint64_t{1} << 31);  // sparse
  Diags diags;
  CHECK(!read_onnx({.path = path, .dims = {}, .shapes = {}, .binds = {}}, diags));
  CHECK(diags.all()[0].id == "model-too-large");
}

TEST_CASE("no damaged byte crashes the reader") {
  onnx::ModelProto model = add_model();
  weight_of(model).set_raw_data(three());
  const std::string bytes = model.SerializeAsString();
  const Folder folder;
  for (size_t i = 0; i < bytes.size(); ++i)
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = bytes;
      damaged[i] ^= static_cast<char>(1 << bit);
      const ReadModel read = read_binary(damaged, folder);
      CHECK(read.module.has_value() == read.diags.ok());
    }
}

TEST_CASE("sparse initializers") {
  onnx::ModelProto model = add_model();
  model.mutable_graph()->clear_initializer();
  model.mutable_graph()->add_sparse_initializer()->mutable_values()->set_name("w");
  CHECK(read_binary(model.SerializeAsString()).ids() == "sparse-initializer-unsupported");
}

TEST_CASE("device annotations of a binary model are those of its text") {
  onnx::ModelProto model = add_model();
  weight_of(model).set_raw_data(three());
  onnx::DeviceConfigurationProto& configuration = *model.add_configuration();
  configuration.set_name("two");
  configuration.set_num_devices(2);
  onnx::NodeDeviceConfigurationProto& node = *model.mutable_graph()->mutable_node(0)->add_device_configurations();
  node.set_configuration_id("two");
  onnx::ShardingSpecProto& w = *node.add_sharding_spec();
  w.set_tensor_name("w");
  for (const int64_t device : {0, 1}) w.add_device(device);
  onnx::ShardedDimProto& dim = *w.add_sharded_dim();
  dim.set_axis(-1);
  dim.add_simple_sharding()->set_num_shards(2);
  onnx::ShardingSpecProto& y = *node.add_sharding_spec();
  y.set_tensor_name("y");
  y.add_device(-7);
  onnx::IntIntListEntryProto& group = *y.add_index_to_device_group_map();
  group.set_key(-7);
  for (const int64_t device : {0, 1}) group.add_value(device);

  const Folder folder;
  Diags diags;
  Schedule schedule;
  const ReadOptions options{folder.write("m.onnx", model.SerializeAsString()), {}, {}, {}};
  REQUIRE(read_onnx(options, diags, &schedule));
  CHECK(schedule.mesh == Mesh{{"d0", 2}});
  REQUIRE(schedule.shard.size() == 2);
  CHECK(schedule.shard[0].target.text == "w");
  CHECK(schedule.shard[0].axes[0].dim == -1);
  CHECK(schedule.shard[1].target.text == "y");
  CHECK(schedule.shard[1].axes[0].replicated);
  node.set_pipeline_stage(3);
  Schedule staged;
  REQUIRE(read_onnx({folder.write("s.onnx", model.SerializeAsString()), {}, {}, {}}, diags, &staged));
  REQUIRE(staged.pipeline);
  CHECK(staged.pipeline->stages[0].name == "stage3");
  CHECK(staged.places[0].ranks == std::vector{0, 1});
}

TEST_CASE(".npy files come back as written") {
  const Folder folder;
  for (DType dtype : {DType::F32, DType::F64, DType::F16, DType::I8, DType::I16, DType::I32, DType::I64, DType::U8,
                      DType::U16, DType::U32, DType::U64, DType::Bool, DType::BF16}) {
    Tensor tensor(dtype, {2, 3});
    for (int64_t i = 0; i < 6; ++i) tensor.put(i, static_cast<double>(i));
    Diags diags;
    const std::string path = (folder.path / "t.npy").string();
    REQUIRE(write_npy(path, tensor, diags));
    std::optional<Tensor> back = read_tensor_file(path, diags);
    REQUIRE_MESSAGE(back, diags.text());
    CHECK(back->dims == Dims{2, 3});
    CHECK(read_as(*back, dtype));
    CHECK(relative_error(*back, tensor) == 0);
  }
  Tensor strings(DType::String, {2});
  strings.integers = {string_id("\xe4\xbd\xa0\xf0\x9f\x98\x80"), string_id("")};
  Tensor scalar = Tensor::scalar(DType::F32, 2);
  Diags diags;
  const std::string path = (folder.path / "s.npy").string();
  REQUIRE(write_npy(path, strings, diags));
  CHECK(relative_error(*read_tensor_file(path, diags), strings) == 0);
  REQUIRE(write_npy(path, scalar, diags));
  CHECK(read_tensor_file(path, diags)->dims.empty());
  CHECK(!write_npy((folder.path / "no/t.npy").string(), scalar, diags));
  CHECK(diags.all()[0].id == "npy-write");
}

TEST_CASE("bf16 as numpy.save writes arrays of ml_dtypes") {
  const Folder folder;
  for (const std::string type : {"<V2", "|V2"}) {
    const std::string header = "{'descr': '" + type + "', 'fortran_order': False, 'shape': (2,), }";
    const std::string file = std::string("\x93NUMPY\x01\0", 8) + static_cast<char>(header.size()) + '\0' + header +
                             std::string("\x80\x3f\0\xc0", 4);
    Diags diags;
    const std::optional<Tensor> tensor = read_tensor_file(folder.write("b.npy", file), diags);
    REQUIRE_MESSAGE(tensor, diags.text());
    CHECK(tensor->dtype == DType::BF16);
    CHECK(tensor->real == std::vector<double>{1, -2});
  }
}

TEST_CASE("the modules that PyTorch's exporter notes are names for nodes and their constants") {
  const Folder folder;
  onnx::ModelProto model = add_model();
  weight_of(model).set_raw_data(three());
  onnx::StringStringEntryProto& entry = *model.mutable_graph()->mutable_node(0)->add_metadata_props();
  entry.set_key("pkg.torch.onnx.name_scopes");
  entry.set_value("['', 'model.layers.0', \"model.layers.0.it's\", 'add_3']");
  Diags diags;
  Schedule schedule;
  REQUIRE(read_onnx({folder.write("m.onnx", model.SerializeAsString()), {}, {}, {}}, diags, &schedule));
  CHECK(schedule.aliases ==
        Aliases{{"model.layers.0", {"y"}}, {"model.layers.0.it's", {"y"}}, {"model.layers.0.it's.weight", {"w"}}});
}

TEST_CASE("tensor files that cannot be read") {
  const Folder folder;
  const auto id = [&](const std::string& name, const std::string& bytes) {
    Diags diags;
    CHECK(!read_tensor_file(folder.write(name, bytes), diags));
    return diags.all().at(0).id;
  };
  const auto npy = [](const std::string& header, const std::string& elements) {
    return std::string("\x93NUMPY\x01\0", 8) + static_cast<char>(header.size()) + '\0' + header + elements;
  };
  CHECK(id("a.npy", "") == "npy-header");
  CHECK(id("a.npy", npy("{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }", "abcd")) == "npy-header");
  CHECK(id("a.npy", npy("{'descr': '<f4', 'fortran_order': True, 'shape': (1,), }", "abcd")) == "npy-header");
  CHECK(id("a.npy", npy("{'descr': '<f4', 'fortran_order': False, }", "abcd")) == "npy-header");
  CHECK(id("a.npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", "abcd")) == "npy-size");
  CHECK(id("a.npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", "abcd")) == "npy-size");
  CHECK(id("a.pb", "text") == "tensor-damaged");
  Diags diags;
  CHECK(!read_tensor_file("/no/such.npy", diags));
  CHECK(!read_tensor_file("/no/such.pb", diags));
  CHECK(diags.all()[0].id == "npy-file");
  CHECK(diags.all()[1].id == "tensor-file");
}

TEST_CASE("a bound input is a constant") {
  const Folder folder;
  Diags diags;
  const std::string path = (folder.path / "n.npy").string();
  REQUIRE(write_npy(path, Tensor::ints({2, 3}), diags));
  ReadOptions options;
  options.binds = {{"shape", path}};
  const ReadModel read = read_graph("(float[6] x, int64[N] shape) => (float y) { y = Reshape(x, shape) }", options);
  REQUIRE_MESSAGE(read.module, read.diags.text());
  CHECK(shown(read.module->graph) == "x = Input()\nshape = Constant()\ny = Reshape(x, shape)\n");
  CHECK(read_graph("(float[6] x, float[2] shape) => (float y) { y = Reshape(x, shape) }", options).ids() ==
        "bind-type");
  CHECK(read_graph("(float[6] x, int64[3] shape) => (float y) { y = Reshape(x, shape) }", options).ids() ==
        "input-shape");
}

TEST_CASE("a summary needs no dims and no support") {
  const Folder folder;
  const std::string path =
      folder.write("m.onnxtxt",
                   "<ir_version: 10, opset_import: [\"\" : 20]> m (float[N, 3] x) => (float[N, ?] y) "
                   "<float[2] w = {1, 2}> { h = Relu(x) y = ImageDecoder(h, w) }");
  Diags diags;
  const std::optional<ModelSummary> summary = summarise_onnx(path, diags);
  REQUIRE(summary);
  CHECK(summary->inputs[0].type == "float[N, 3]");
  CHECK(summary->outputs[0].type == "float[N, ?]");
  CHECK(summary->dims == std::vector<std::string>{"N"});
  CHECK(summary->ops.at("Relu") == 1);
  CHECK(summary->unsupported == std::map<std::string, int64_t>{{"ImageDecoder", 1}});
  CHECK(summary->initialiser_bytes == 8);
}
