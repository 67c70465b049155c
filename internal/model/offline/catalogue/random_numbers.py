import random

generator = random.Random({{num .seed}})
print(", ".join(str(generator.randint({{num .low}}, {{num .high}})) for _ in range({{num .n}})))
