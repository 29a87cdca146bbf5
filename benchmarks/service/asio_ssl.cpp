// Asio's TLS streams, which only the plain peer uses, compiled once.

#include <boost/asio/ssl/impl/src.hpp>
