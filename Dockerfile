# The program and the bundled model: docker build -t braid . && docker run --rm braid run models/pocket 'What is a river?'
# Serving: docker run --rm -p 8080:8080 -v MODELS:/models braid serve /models/NAME --host 0.0.0.0 --api-key KEY
# Not built by any test: that wants a daemon of Docker's.
# SPDX-License-Identifier: Apache-2.0
FROM debian:12 AS build
WORKDIR /braid
COPY . .
RUN tools/setup.sh demo && cmake --preset release && cmake --build build --target braid

# The program needs the C library and nothing else (tests/cli/portable_test.py).
FROM debian:12-slim
COPY --from=build /braid/build/braid /usr/local/bin/braid
WORKDIR /braid
COPY LICENSE NOTICE ./
COPY models models
EXPOSE 8080
ENTRYPOINT ["braid"]
CMD ["--help"]
