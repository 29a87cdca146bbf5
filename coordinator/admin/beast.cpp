// Beast is compiled once, here; everything else includes declarations only.
#include <boost/beast/src.hpp>
