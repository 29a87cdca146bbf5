#pragma once
// Curves of one or several recordings as SVG, drawn by gnuplot, which gets everything on its standard input.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "simulation/output/round_output.hpp"

namespace gleaner::simulation {

enum class PlotAxis : std::uint8_t { rounds, bytes, virtual_time };

// What gnuplot reads for one picture. Text from the recordings cannot end a string or begin a command.
std::string plot_script(std::span<const Recording> recordings, PlotAxis axis, const std::string& svg_path);

// Writes accuracy-rounds.svg, accuracy-bytes.svg and accuracy-time.svg into the directory (made when it is not there),
// each whole or not at all; gives their paths. Errors: not_found when there is no gnuplot on PATH (says how to install
// it); bad_input when no recording has an accuracy; fatal when gnuplot fails.
Result<std::vector<std::string>> plot(std::span<const Recording> recordings, const std::string& directory);

}  // namespace gleaner::simulation
