# Writes OUTPUT, a C++ source that holds the bytes of INPUT.
file(READ ${INPUT} bytes HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE ${OUTPUT} "// Made from chat.html by cmake/write_page.cmake.
#include \"server/page/page.h\"
namespace braid::server {
namespace {
constexpr unsigned char kBytes[] = {${bytes}};
}
std::string_view chat_page() { return {reinterpret_cast<const char*>(kBytes), sizeof kBytes}; }
}  // namespace braid::server
")
