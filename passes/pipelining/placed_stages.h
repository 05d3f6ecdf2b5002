// Stages on places of unequal sizes: where a line of cells is cut, and how many ranks each stretch gets.
//
//   cells   e l l l l h h h   on six ranks   ->   e l l l l on two, h h h on four
#pragma once
#include <cstdint>
#include <vector>

namespace weftc {

/// The costs of cells at a place of that many ranks, under layouts that suit it.
struct PlaceChoice {
  int ranks = 1;
  std::vector<double> seconds;  // by cell: of a whole batch
  std::vector<int64_t> bytes;   // by cell: the bytes that a rank keeps from batch to batch
};

/// A value that one cell makes and others read.
struct CellValue {
  int from = 0;
  std::vector<int> to;
  int64_t bytes = 0;
};

/// Cells in an order in which they may follow each other, and the ranks that they are for.
struct PlacedLine {
  int ranks = 1;
  int64_t memory = 0;  // bytes of a rank; 0: not known
  std::vector<PlaceChoice> choices;
  std::vector<CellValue> values;
  std::vector<double> link;  // by rank, except the first: seconds for a byte from the previous rank

  int cells() const { return choices.empty() ? 0 : static_cast<int>(choices.front().seconds.size()); }
};

/// Cells begin .. end - 1.
struct PlacedStage {
  int begin = 0, end = 0;
  int ranks = 1;
};

/// A cut into stages, on the ranks one after the other.
struct PlacedStages {
  std::vector<PlacedStage> stages;
  double fill = 0;    // seconds of a whole batch on its longest way through the stages
  double period = 0;  // seconds of a whole batch in the stage, or on the link, that it takes longest in

  /// Micro-batches enter as the longest stage takes them.
  double seconds(int micro_batches) const { return (fill + (micro_batches - 1) * period) / micro_batches; }
  bool are_even() const;
};

/// Cuts of different periods, the longest first. No period is longer than that of the cut whose stages and messages
/// together take least. For a line without branches, the best cut for any number of micro-batches is among them, up to
/// 1 / 200 of the time. Every rank has a stage. Empty where no cut fits the memory, or there are no choices.
std::vector<PlacedStages> place_stages(const PlacedLine& line);

/// The same with equally many ranks for every stage.
std::vector<PlacedStages> place_even_stages(const PlacedLine& line);

}  // namespace weftc
