# A program that was built once runs on machines without the packages it was built with: libraries that have a static form
# are linked so, and of fmt, which is packaged as a shared library alone, base compiles what is needed.
add_library(braid_fmt INTERFACE)
get_target_property(fmt_include fmt::fmt INTERFACE_INCLUDE_DIRECTORIES)
target_include_directories(braid_fmt SYSTEM INTERFACE ${fmt_include})

# The static form of a package's library where there is one, else what the package says.
function(braid_static variable library otherwise)
  find_library(${variable}_file NAMES lib${library}.a)
  if(${variable}_file)
    set(${variable} ${${variable}_file} PARENT_SCOPE)
  else()
    set(${variable} ${otherwise} PARENT_SCOPE)
  endif()
endfunction()

braid_static(pcre2_library pcre2-8 PkgConfig::PCRE2)
braid_static(utf8proc_library utf8proc PkgConfig::UTF8PROC)
add_compile_definitions(UTF8PROC_STATIC)
if(NOT BRAID_SANITIZE)
  add_link_options(-static-libstdc++ -static-libgcc)
endif()
