"""What the documents of these tests are made of."""

from pathlib import Path

FONTS = Path("/usr/share/fonts/truetype/dejavu")

PROSE = (
    "Nước ta nằm ở phía đông của bán đảo Đông Dương, gần trung tâm khu vực Đông Nam Á. Phần đất liền trải dài từ bắc "
    "vào nam, có bờ biển dài 3.260 km. Các thầy thuốc ở bệnh viện khám cho nhiều người. Khí hậu nhiệt đới gió mùa làm "
    "cho cây cối xanh tốt quanh năm, sông ngòi nhiều nước và đất đai màu mỡ. "
)
