// Asio is compiled here, once for all programs.
#include <boost/asio/impl/src.hpp>
