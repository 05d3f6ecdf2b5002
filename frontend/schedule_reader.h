// Reads schedule YAML (README.md) and checks all that can be known without the model: keys, types, ranges, mesh axes,
// places, stages. All errors of a file are reported together.
#pragma once
#include <optional>
#include <string>

#include "ir/schedule.h"

namespace weftc {

/// Nothing after reporting.
std::optional<Schedule> read_schedule(const std::string& path, Diags& diags);
/// `name` is the file's name in messages.
std::optional<Schedule> read_schedule_text(const std::string& name, const std::string& text, Diags& diags);
/// The command line's `--mesh AXIS=N`. Nothing after reporting.
std::optional<MeshAxis> parse_mesh_option(const std::string& text, Diags& diags);
/// Gives axes of the schedule's mesh other sizes, so that one file works for several numbers of ranks; reports axes
/// that it does not have.
void resize_mesh(Schedule& schedule, const std::vector<MeshAxis>& sizes, Diags& diags);

}  // namespace weftc
