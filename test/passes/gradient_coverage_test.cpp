// Every record has a gradient, which is compared with differences in double precision, or stands in a list of those
// that have none by definition: a new record cannot be forgotten.
#include <doctest/doctest.h>

#include <set>

#include "ir/ops/gradient.h"
#include "test/passes/gradient_rows.h"
#include "test/scheduled.h"

using namespace weftc;
using namespace weftc::test;

namespace {

struct Group {
  const char* reason;
  std::vector<std::string> records;
};

const Group kWithoutGradient[] = {
    {"conditions, and what computes on bits or counts",
     {"And", "BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "BitCast", "Equal", "Greater",
      "GreaterOrEqual", "IsInf", "IsNaN", "Less", "LessOrEqual", "Not", "OptionalHasElement", "Or", "Xor"}},
    {"integers: places, classes, shapes and lengths",
     {"ArgMax", "ArgMin", "LengthOf", "NameLength", "NonMaxSuppression", "NonZero", "SequenceLength", "Shape", "Size",
      "TruePositions"}},
    {"constant but for jumps", {"Binarizer", "Ceil", "Floor", "Hardmax", "OneHotEncoder", "Round", "Sign"}},
    {"decision trees are constant but for jumps",
     {"TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor", "TreeSums"}},
    {"sources: nothing that is trained goes in",
     {"BlackmanWindow", "Constant", "ConstantOfShape", "EyeLike", "HammingWindow", "HannWindow", "Input", "Iota",
      "MelWeightMatrix", "Range"}},
    {"random: the result depends on a shape alone, or is drawn by probabilities",
     {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}},
    {"strings and what is looked up by labels",
     {"AutomatonMatch", "CategoryMapper", "ChangeCase", "FindString", "LabelEncoder", "NumberToString", "Piece",
      "PieceCount", "RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit", "StringToNumber",
      "TfIdfVectorizer", "ZipMap"}},
    {"quantized: operands or results are integers, or rounded to such in between",
     {"ConvInteger", "DynamicQuantizeLinear", "DynamicQuantizeMatMul", "MatMulInteger", "QGemm", "QLinearAdd",
      "QLinearAveragePool", "QLinearConcat", "QLinearConv", "QLinearGlobalAveragePool", "QLinearLeakyRelu",
      "QLinearMatMul", "QLinearMul", "QLinearSigmoid", "QLinearSoftmax", "QuantizeLinear"}},
    {"collectives: gradients are of whole values, whose layouts are found later; a model's own are refused",
     {"AllGather", "AllReduce", "AllToAll", "Broadcast", "DistCollective", "NcclAllGather", "NcclReduceScatter",
      "Reduce", "ReduceScatter"}},
    {"made by passes after differentiate, or by decompositions of ops without a gradient",
     {"BlockMatMul", "BoxChoice", "Chunk", "Fused", "RoundedCast", "Saturate", "ShardSlice", "Transfer"}},
    {"data decides how many elements there are: refused", {"Unique"}},
    {"is gone before it is asked for one", {"Gradient"}},
    {"what an op with a row becomes for each element of its sequences", {"AdamWStep", "SGDStep"}},
};

constexpr uint64_t kSeeds = 3;

std::set<std::string> differentiated_records() {
  std::set<std::string> records;
  for (const GradientRow& row : kGradientRows) records.insert(row.record);
  return records;
}

}  // namespace

TEST_CASE("gradient coverage: derivatives are the limits of differences") {
  std::set<std::string> differentiated;
  for (const GradientRow& row : kGradientRows)
    for (uint64_t seed = 1; seed <= kSeeds; ++seed)
      if (check_row(row, seed)) differentiated.insert(row.record);
  for (const GradientRow& row : kGradientRows)
    CHECK_MESSAGE(differentiated.contains(row.record), std::string(row.record), ": nothing depends on what is trained");
  MESSAGE(differentiated.size(), " of ", all_op_defs().size(), " records are differentiated");
}

TEST_CASE("gradient coverage: every record has a gradient or a reason why not") {
  std::map<std::string, int> known;
  for (const std::string& record : differentiated_records()) known[record] = 1;
  for (const Group& group : kWithoutGradient)
    for (const std::string& record : group.records) known[record] += 2;
  for (const OpDef* def : all_op_defs()) {
    CHECK_MESSAGE(known.contains(def->name), std::string(def->name),
                  " has neither a row in gradient_rows.h nor a reason above");
    const bool is_without = known[def->name] & 2;
    CHECK_MESSAGE(known[def->name] != 3, std::string(def->name), " has a row, and a reason to have none");
    CHECK_MESSAGE((!is_without || !def->gradient || def->gradient == no_gradient), std::string(def->name),
                  " has a rule");
    known.erase(def->name);
  }
  for (const auto& [record, where] : known) CHECK_MESSAGE(where == 0, record, " is no record");
}
