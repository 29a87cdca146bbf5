#pragma once
// Owning handles of OpenSSL objects, and its error queue as text. For protocol/pki and protocol/link only.

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>

namespace gleaner::pki {

template <auto Free>
struct Deleter {
  template <class T>
  void operator()(T* object) const noexcept {
    Free(object);
  }
};

using BioHandle = std::unique_ptr<BIO, Deleter<BIO_free_all>>;
using KeyHandle = std::unique_ptr<EVP_PKEY, Deleter<EVP_PKEY_free>>;
using CertificateHandle = std::unique_ptr<X509, Deleter<X509_free>>;
struct FreeChain {
  void operator()(STACK_OF(X509) * chain) const noexcept { sk_X509_pop_free(chain, X509_free); }
};
using ChainHandle = std::unique_ptr<STACK_OF(X509), FreeChain>;
using StoreHandle = std::unique_ptr<X509_STORE, Deleter<X509_STORE_free>>;
using StoreContextHandle = std::unique_ptr<X509_STORE_CTX, Deleter<X509_STORE_CTX_free>>;
using GeneralNamesHandle = std::unique_ptr<GENERAL_NAMES, Deleter<GENERAL_NAMES_free>>;

// The reason of the newest entry of this thread's error queue, which is emptied; "unknown" when there is none.
std::string take_openssl_reason();

}  // namespace gleaner::pki
