// Every text that is seen, with the contrast of its colour against what lies behind it (WCAG 2). Returns those below `least`.
(least) => {
  const parsed = (color) => {
    const numbers = color.match(/[\d.]+/g).map(Number);
    return { rgb: numbers.slice(0, 3), alpha: numbers.length > 3 ? numbers[3] : 1 };
  };
  const luminance = (rgb) => {
    const [r, g, b] = rgb.map((value) => value / 255).map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const { rgb, alpha } = parsed(getComputedStyle(one).backgroundColor);
      if (alpha === 1) return rgb;
      if (alpha > 0) throw new Error(`half-transparent background on ${one.tagName}`);
    }
    throw new Error("no background");
  };
  const found = { texts: 0, low: [] };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const text = walker.currentNode.textContent.trim();
    const inSvg = element.closest("svg");
    if (!text || ["SCRIPT", "STYLE", "title", "desc"].includes(element.tagName) || !element.checkVisibility()) continue;
    const style = getComputedStyle(element);
    const front = parsed(inSvg ? style.fill : style.color).rgb;
    const [one, other] = [luminance(front), luminance(behind(element))];
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    found.texts += 1;
    if (ratio < least) found.low.push(`${ratio.toFixed(2)} ${element.tagName}.${element.getAttribute("class")}: ${text.slice(0, 40)}`);
  }
  return found;
}
