"""The house rules as data: who may include what, and how large things may be."""

MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 70
MAX_LINE_LENGTH = 120
MAX_COMMON_HEADERS = 11

# Folder -> folders that it may include besides itself. A folder that is not here (tests, benchmarks, cli) may use all.
LAYERS = {
    "common": set(),
    "config": {"common"},
    "kernels": {"common"},
    "compression": {"common", "kernels"},
    "protocol": {"common"},
    "training": {"common", "kernels"},
    "aggregation": {"common", "kernels", "compression"},
    "scheduling": {"common"},
    "storage": {"common"},
    "client": {"common", "config", "kernels", "compression", "protocol", "training", "aggregation"},
    "coordinator": {"common", "config", "kernels", "compression", "protocol", "training", "aggregation", "scheduling",
                    "storage"},
    "simulation": {"common", "config", "kernels", "compression", "protocol", "training", "aggregation", "scheduling",
                   "storage", "client", "coordinator"},
}

# Part of a folder -> parts that it must not include, although its layer may: the state machines know no network.
NETWORK = ("protocol/link/", "coordinator/net/", "coordinator/admin/", "client/net/")
FORBIDDEN_PARTS = {"coordinator/round/": NETWORK, "client/session/": NETWORK, "simulation/": NETWORK}

# (pattern of the included header, folders or files that may, what to do instead); tests/ and benchmarks/ may all.
CONFINED = (
    (r"boost/(asio|beast)\b", NETWORK, "put the network behind an interface in one of them"),
    (r"openssl/", NETWORK + ("protocol/pki/", "cli/"), "put TLS and certificates behind an interface in one of them"),
    (r"sqlite3", ("storage/",), "go through storage/"),
    (r"(cuda|cublas|curand|cub/|thrust/|nvtx)", ("kernels/cuda/", "training/cuda/"), "go through the kernel table"),
    (r"(.*_generated\.h$|flatbuffers/)", ("protocol/",), "use the message structs of protocol/"),
    (r"spdlog/", ("common/log.cpp",), "log through common/log.hpp"),
)

# State machines get time, randomness and bytes as input.
PURE_FOLDERS = ("coordinator/round/", "client/session/")
IMPURE = (r"^\s*#\s*include\s*<(thread|mutex|future|condition_variable|fstream|filesystem|random|iostream)>"
          r"|\bsystem_clock\s*\(|\b(steady_clock|high_resolution_clock)\b|\bstd::(rand|random_device|jthread|thread)\b")
