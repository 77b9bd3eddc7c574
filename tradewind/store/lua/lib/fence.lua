-- Whether a region of `groups` is inside a fence; both are comma-separated, no fence lets all in.
local function inside(fence, groups)
  if not fence or fence == '' then
    return true
  end
  for group in string.gmatch(groups, '[^,]+') do
    if string.find(',' .. fence .. ',', ',' .. group .. ',', 1, true) then
      return true
    end
  end
  return false
end
