# The program and the bundled model: docker build -t braid . && docker run --rm braid run models/pocket 'What is a river?'
# SPDX-License-Identifier: Apache-2.0
FROM debian:12 AS build
WORKDIR /braid
COPY . .
RUN tools/setup.sh demo && cmake --preset release && cmake --build build --target braid

FROM debian:12-slim
RUN apt-get update \
 && apt-get install -y --no-install-recommends libfmt9 libpcre2-8-0 libstdc++6 libutf8proc2 \
 && rm -rf /var/lib/apt/lists/*
COPY --from=build /braid/build/braid /usr/local/bin/braid
WORKDIR /braid
COPY LICENSE NOTICE ./
COPY models models
ENTRYPOINT ["braid"]
CMD ["--help"]
