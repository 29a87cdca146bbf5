#pragma once
// What is measured. Each call starts what it needs, adds its rows, and takes everything down again.

#include <vector>

#include "benchmarks/service/bed.hpp"
#include "benchmarks/service/report.hpp"

namespace gleaner::bench {

using Rows = std::vector<Row>;

// Memory of an idle connection, beside that of a plain TLS stream.
Status measure_idle_connections(const Bed& bed, Rows& rows);
// Rounds of 100 devices and a million parameters: time, fixed bytes, what the network thread lets wait, and storage
// with the very records that these rounds wrote.
Status measure_rounds(const Bed& bed, Rows& rows);
// Memory while 1,000 large updates arrive, and until the version is committed.
Status measure_arrivals(const Bed& bed, Rows& rows);
// A client at rest.
Status measure_client(const Bed& bed, Rows& rows);

}  // namespace gleaner::bench
